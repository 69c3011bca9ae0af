//! Promise: what the store does not take goes to the fallback, and is read from where it is.

use crate::common::fake::Fake;
use crate::common::{Local, Run, SEGMENT, device, device_with, patience, wait_until};
use coldpress_remote::Failure;
use coldpress_tier::{DeviceError, Refused};
use std::time::Duration;

#[test]
fn a_tier_is_its_records_with_a_store_that_comes_and_goes() {
    for seed in 0..8 {
        let (fake, local) = (Fake::default(), Local::default());
        // It does not rest, but is tried each time, once.
        let mut patience = patience();
        patience.retries = 0;
        patience.rest = Duration::ZERO;
        patience.longest_rest = Duration::ZERO;
        let device = device_with(Box::new(fake.clone()), Some(&local), patience);
        let mut run = Run::new(device, seed);
        let (mut away, mut waited) = (0, 0);
        for _ in 0..60 {
            let fails = run.chance.below(3) == 0;
            fake.fails(fails.then_some(Failure::Unreachable));
            if !fails {
                wait_until("answered", || run.refused().is_empty());
            }
            for _ in 0..40 {
                match run.put() {
                    Ok(_) => {}
                    Err(Refused::Full) => (0..8).for_each(|_| run.remove_any()),
                    // There is no segment but by cleaning, for which the store has to be read.
                    Err(Refused::Device(DeviceError::Unreachable)) if fails => waited += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            away += usize::from(fails && !run.refused().is_empty());
        }
        run.tier.check_invariants();
        let (figures, counts) = (run.figures(), run.tier.counts());
        assert!(figures.fallback_puts > 0 && figures.puts > 0, "{figures:?}");
        assert!(figures.fallback_gets > 0 && away > 0, "{figures:?}");
        assert!(waited > 0 && counts.cleaned_segments > 0, "{counts:?}");
        assert_eq!((counts.lost_records, counts.damaged_reads), (0, 0));
        fake.fails(None);
        wait_until("answered", || run.refused().is_empty());
    }
}

#[test]
fn without_a_fallback_a_dead_store_refuses_and_what_was_taken_stays() {
    let fake = Fake::default();
    let mut run = Run::new(device(Box::new(fake.clone()), None), 1);
    run.put_many(40);
    fake.fails(Some(Failure::Unreachable));
    let mut taken = Vec::new();
    let error = loop {
        match run.put() {
            Ok(number) => taken.push(number),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Refused::Device(_)), "{error:?}");
    assert!(!taken.is_empty(), "the buffer takes some still");
    for number in taken {
        run.get(number).unwrap();
    }
    fake.fails(None);
    wait_until("taken again", || run.put().is_ok());
    assert_eq!(run.refused().len(), 0);
}

#[test]
fn a_segment_leaves_the_fallback_when_the_store_takes_it_again() {
    let (fake, local) = (Fake::default(), Local::default());
    let mut device = device(Box::new(fake.clone()), Some(&local));
    use coldpress_tier::Device;
    fake.fails(Some(Failure::Denied));
    device.write_at(0, &[1; SEGMENT]).unwrap();
    device.sync().unwrap();
    device.write_at(SEGMENT as u64, &[2; 3]).unwrap();
    let mut read = [0; 3];
    device.read_at(7, &mut read).unwrap();
    assert_eq!(read, [1; 3]);
    assert_eq!(device.counts().figures().fallback_gets, 1);
    assert_eq!(local.0.lock().unwrap().len(), SEGMENT);
    fake.fails(None);
    wait_until("taken", || {
        device.write_at(0, &[3; SEGMENT]).unwrap();
        device.sync().unwrap();
        device.counts().figures().puts > 0
    });
    device.write_at(2 * SEGMENT as u64, &[4]).unwrap();
    device.read_at(7, &mut read).unwrap();
    assert_eq!(read, [3; 3], "from the store, and not from the fallback");
}

/// The bug: a store that refused to be read, as it does while a password is changed, was taken for one that had lost the
/// object. Each cleaning cost a segment then, while segments went to the fallback.
#[test]
fn a_store_that_refuses_loses_nothing() {
    let refusals = [
        Failure::Denied,
        Failure::NoSuchPlace,
        Failure::NoSpace,
        Failure::Other,
        Failure::Busy,
    ];
    for refusal in refusals {
        let (fake, local) = (Fake::default(), Local::default());
        let mut run = Run::new(device(Box::new(fake.clone()), Some(&local)), 3);
        while run.put().is_ok() {}
        (0..run.held.len() / 3).for_each(|_| run.remove_any());
        fake.fails(Some(refusal));
        let before = run.held.len();
        let refused = loop {
            match run.put() {
                Ok(_) => assert!(run.held.len() < 2 * before, "{refusal:?}: it cleans"),
                Err(error) => break error,
            }
        };
        fake.fails(None);
        assert_eq!(run.refused().len(), 0, "{refusal:?}");
        wait_until("taken again", || run.put().is_ok());
        run.tier.check_invariants();
        let counts = run.tier.counts();
        assert_eq!((counts.lost_records, counts.damaged_reads), (0, 0));
        assert_eq!(refused, Refused::Device(DeviceError::Unreachable));
    }
}

/// The bug: the store was lost in the moment in which the last free segment was written. None was cleaned then, nor
/// ever after, and a tier whose records went was full for good.
#[test]
fn a_store_that_goes_while_the_last_segment_is_written_is_cleaned_when_it_is_back() {
    for left in 0..6 {
        let (fake, local) = (Fake::default(), Local::default());
        let mut run = Run::new(device(Box::new(fake.clone()), Some(&local)), 11);
        while run.put().is_ok() {}
        let third = run.held.len() / 3;
        (0..third).for_each(|_| run.remove_any());
        // The segment that would be cleaned is read, or was put last; then the one before is put.
        fake.0.lock().unwrap().left = Some(left);
        while run.put().is_ok() {}
        fake.0.lock().unwrap().left = None;
        assert_eq!(run.refused().len(), 0, "{left} calls");
        (0..third).for_each(|_| run.remove_any());
        let before = run.held.len();
        wait_until("taken again", || {
            while run.put().is_ok() {}
            run.held.len() - before > third / 2
        });
        assert_eq!(run.refused().len(), 0, "{left} calls");
        run.tier.check_invariants();
        assert_eq!(run.tier.counts().lost_records, 0);
    }
}
