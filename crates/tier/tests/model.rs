//! A tier against a map, with a device that does its duty: cleaning, full tables, sync.

use crate::common::{Run, SEGMENT};
use coldpress_tier::{Handle, Refused, Unreadable};

#[test]
fn a_tier_is_its_records() {
    for seed in 0..20 {
        let mut run = Run::new(6, 200, seed, None);
        let mut refused = 0;
        for step in 0..8000_u64 {
            match run.chance.below(20) {
                0..9 => match run.put() {
                    Ok(_) => {}
                    Err(Refused::Full) => refused += 1,
                    Err(error) => panic!("{error:?}"),
                },
                9..16 => {
                    if let Some(number) = run.any() {
                        run.remove(number);
                    }
                }
                16 => run
                    .tier
                    .sync()
                    .or_else(|error| match error {
                        Refused::Full => Ok(()),
                        error => Err(error),
                    })
                    .unwrap(),
                _ => {
                    if let Some(number) = run.any() {
                        run.get(number).unwrap();
                    }
                }
            }
            if step % 512 == 0 {
                run.tier.check_invariants();
            }
        }
        let all: Vec<u32> = run.held.keys().copied().collect();
        all.iter().for_each(|number| run.get(*number).unwrap());
        run.tier.check_invariants();
        let counts = run.tier.counts();
        assert_eq!(counts.records, all.len() as u64);
        assert!(counts.cleaned_segments > 0 && refused > 0, "{counts:?}");
        assert_eq!((counts.damaged_reads, counts.lost_records), (0, 0));
        all.iter().for_each(|number| run.remove(*number));
        run.tier.check_invariants();
        let counts = run.tier.counts();
        assert_eq!((counts.records, counts.live_bytes), (0, 0));
    }
}

/// A full tier keeps what it has, and takes more when some is removed, however little of it.
#[test]
fn a_full_tier_takes_more_when_records_go() {
    let mut run = Run::new(4, 2000, 1, None);
    let fill = |run: &mut Run| while run.put().is_ok() {};
    fill(&mut run);
    let used = run.tier.counts().live_bytes as usize;
    assert!(used > 3 * SEGMENT, "{used} bytes of {}", 4 * SEGMENT);
    for _ in 0..200 {
        let all: Vec<u32> = run.held.keys().copied().collect();
        for number in all {
            run.get(number).unwrap();
            if run.chance.below(3) == 0 {
                run.remove(number);
            }
        }
        let before = run.held.len();
        fill(&mut run);
        assert!(run.held.len() > before, "nothing was taken");
        run.tier.check_invariants();
    }
}

#[test]
fn handles_of_others_open_nothing() {
    let mut run = Run::new(4, 100, 3, None);
    let number = run.put().unwrap();
    let owner = run.held[&number].0;
    let mut buffer = [0; 600];
    let handle = Handle::of_number(number);
    let wrong = [
        run.tier.get(handle, 7777, &mut buffer),
        run.tier.get(Handle::of_number(0), 1, &mut buffer),
        run.tier.get(Handle::of_number(99), 1, &mut buffer),
        run.tier.get(Handle::of_number(5000), 1, &mut buffer),
    ];
    assert_eq!(wrong, [Err(Unreadable::Unknown); 4]);
    assert_eq!(
        run.tier.get(handle, owner, &mut []),
        Err(Unreadable::TooLong)
    );
    assert!(!run.tier.remove(handle, 7777));
    let longest = run.tier.longest();
    assert_eq!(run.tier.put(1, &vec![1; longest + 1]), Err(Refused::Length));
    assert_eq!(run.tier.put(1, &[]), Err(Refused::Length));
    run.remove(number);
    assert_eq!(
        run.tier.get(handle, owner, &mut buffer),
        Err(Unreadable::Unknown)
    );
}
