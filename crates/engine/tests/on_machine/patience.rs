//! Promise: on a machine without accessed bits, a page that comes back soon after it was taken out is
//! passed over for a while; one that stays away is not; and none is for ever. So is one that does not compress.

use crate::machine::*;
use coldpress_engine::Pace;
use coldpress_engine::queues::random::RandomPick;

/// Hot pages; then so many cold ones. Each in a leaf of its own.
const HOT: u32 = 4;
const COLD: u32 = 60;
const SECOND: u64 = 1_000_000_000;

fn index(n: u32) -> u32 {
    n * 64
}

fn patient(pages: u32) -> &'static System {
    let s = system(1, pages as usize);
    let mut tunables = s.engine.tunables().load();
    tunables.second_chances = 15;
    s.engine.configure(&tunables).unwrap();
    s
}

/// One second of a program that uses its hot pages all the time and one cold page a second. Two more
/// pages are reclaimed, so that far fewer are in place than there are. How many hot pages had to come back.
fn second(s: &System, w: &mut TestWorker, r: &mut TestReclaimer, time: u32) -> u32 {
    s.machine.advance(SECOND);
    let (cold, mut returned) = (HOT + time % COLD, 0);
    for n in (0..HOT).chain([cold]) {
        if !s.is_resident(1, index(n)) {
            assert_eq!(s.read(w, 1, index(n)), content(Kind::Text, n.into()));
            returned += u32::from(n < HOT);
        }
    }
    s.engine.age(&s.machine, &AGEING, Pace::Pressed);
    while s.engine.resident_pages() > HOT + 8 {
        if s.reclaim(r, 1).taken == 0 {
            s.cool();
        }
    }
    s.engine.check_queues();
    returned
}

#[test]
fn hot_pages_come_to_stay() {
    let s = patient(index(HOT + COLD));
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for n in 0..HOT + COLD {
        s.write(&mut w, 1, index(n), &content(Kind::Text, n.into()));
    }
    let mut returned = |seconds: std::ops::Range<u32>| -> u32 {
        seconds.map(|time| second(s, &mut w, &mut r, time)).sum()
    };
    let first = returned(0..100);
    let last = returned(900..1000);
    let chances = value(&s.engine.counters().second_chances);
    println!(
        "hot pages came back {first} times in 100 s, and 900 s later {last} times; {chances} second chances"
    );
    assert!(chances > 50);
    assert!(last * 3 < first, "{last} is not a third of {first}");
}

#[test]
fn patience_ends() {
    let s = patient(index(HOT));
    let (mut w, mut r) = (worker(1), reclaimer(2));
    s.write(&mut w, 1, 0, &content(Kind::Text, 0));
    let mut rounds = 0;
    // Comes back at once, ever again.
    for _ in 0..10 {
        while s.is_resident(1, 0) {
            s.cool();
            s.reclaim(&mut r, 1);
            rounds += 1;
        }
        s.read(&mut w, 1, 0);
    }
    let most = 1 + 15;
    println!("{rounds} rounds for ten evictions");
    assert!(rounds > 6 * most && rounds <= 10 * most, "{rounds}");
    // Comes back after a long time only.
    for expected in [16, 8, 4, 2, 1, 1] {
        let mut rounds = 0;
        while s.is_resident(1, 0) {
            s.cool();
            s.reclaim(&mut r, 1);
            rounds += 1;
        }
        assert_eq!(rounds, expected);
        s.machine.advance(1000 * SECOND);
        s.read(&mut w, 1, 0);
    }
}

#[test]
fn what_does_not_compress_is_tried_ever_less() {
    let s = patient(index(2));
    let mut r = reclaimer(2);
    s.write(&mut worker(1), 1, 0, &content(Kind::Noise, 1));
    let mut tried = Vec::new();
    for round in 0..200 {
        let before = value(&s.engine.counters().incompressible);
        s.machine.advance(AGEING.retry_failed_ns);
        s.cool();
        s.reclaim(&mut r, 1);
        if value(&s.engine.counters().incompressible) > before {
            tried.push(round);
        }
    }
    println!("tried in rounds {tried:?}");
    assert!(tried.len() > 5, "not given up");
    assert!(
        tried.len() < 30,
        "each round but for patience: {}",
        tried.len()
    );
}

/// Random picking, and with it chaos and random debug compression, takes a page whatever its heat.
#[test]
fn what_is_picked_has_no_chances() {
    let s = patient(index(HOT));
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for n in 0..HOT {
        s.write(&mut w, 1, index(n), &content(Kind::Text, n.into()));
    }
    s.cool();
    while s.reclaim(&mut r, 1).taken > 0 {}
    for n in 0..HOT {
        s.read(&mut w, 1, index(n));
    }
    s.cool();
    let batch = s.reclaim(&mut r, 1);
    assert_eq!((batch.taken, batch.spared), (0, HOT), "all came back soon");
    assert!(s.engine.pick_pages(&mut RandomPick::new(1), HOT) > 0);
    assert!(s.reclaim(&mut r, 1).taken > 0);
}
