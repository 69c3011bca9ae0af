//! Promise: whatever a device does wrong is detected and counted, no wrong byte is returned, and nothing is lost but
//! the records whose bytes are wrong.
//!
//! The device keeps what a good one would hold beside what it holds. So after a fault it is known which records are
//! concerned: exactly those must be refused, and all others must be read.

use crate::common::{Fault, Run};
use coldpress_tier::{DeviceError, Handle, Refused, Unreadable};

const SEGMENTS: usize = 4;

struct Episode {
    run: Run,
    fault: Fault,
    injected: u64,
    detected: u64,
}

impl Episode {
    fn new(fault: Fault, seed: u64) -> Self {
        let mut run = Run::new(SEGMENTS, 400, seed, None);
        while run.put().is_ok() {}
        Self {
            run,
            fault,
            injected: 0,
            detected: 0,
        }
    }

    /// Removes some, so that others have room.
    fn churn(&mut self) {
        for _ in 0..12 {
            if let Some(number) = self.run.any() {
                self.run.remove(number);
            }
        }
    }

    /// The fault strikes a write: records are put until it has.
    fn strike_a_write(&mut self) {
        self.run.tier.device().next = Some(self.fault);
        while self.run.tier.device().next.is_some() {
            match self.run.put() {
                Ok(_) => {}
                Err(Refused::Full) => self.churn(),
                Err(error) => panic!("one error is no reason to refuse: {error:?}"),
            }
        }
    }

    fn strike(&mut self) {
        let segment = self.run.chance.below(SEGMENTS as u64) as usize;
        let at = self
            .run
            .chance
            .below((SEGMENTS * crate::common::SEGMENT) as u64) as usize;
        let bit = self.run.chance.below(8);
        let device = self.run.tier.device();
        match self.fault {
            Fault::BitRot => device.bytes[at] ^= 1 << bit,
            Fault::Replay => {
                let before = device.before[segment].clone();
                device.bytes[segment * before.len()..][..before.len()].copy_from_slice(&before);
            }
            Fault::ReadError | Fault::ShortRead | Fault::MisdirectedRead => {
                device.next = Some(self.fault);
            }
            _ => self.strike_a_write(),
        }
    }

    /// Reads everything. What is refused is given up.
    fn read_all(&mut self) -> u64 {
        let mut refused = 0;
        let all: Vec<u32> = self.run.held.keys().copied().collect();
        for number in all {
            match self.run.get(number) {
                Ok(()) => {}
                Err(Unreadable::Damaged) => {
                    refused += 1;
                    self.run.remove(number);
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        refused
    }

    /// A fault, and what must come of it.
    fn once(&mut self) {
        let before = self.run.tier.counts();
        let device = self.run.tier.device();
        assert!(device.bytes == device.truth, "the last one was not mended");
        self.strike();
        let struck = self.struck();
        // A cleaning may have met some already.
        let lost = self.run.tier.counts().lost_records - before.lost_records;
        let expected = struck + lost;
        let refused = self.read_all();
        let counts = self.run.tier.counts();
        let told = match self.fault {
            Fault::NoSpace => counts.no_space_errors - before.no_space_errors,
            Fault::WriteError => counts.write_errors - before.write_errors,
            Fault::ShortWrite => counts.short_writes - before.short_writes,
            Fault::ReadError => counts.read_errors - before.read_errors,
            Fault::ShortRead => counts.short_reads - before.short_reads,
            Fault::MisdirectedRead => counts.damaged_reads - before.damaged_reads,
            _ => counts.damaged_reads - before.damaged_reads,
        };
        let is_told_by_device = matches!(
            self.fault,
            Fault::NoSpace
                | Fault::WriteError
                | Fault::ShortWrite
                | Fault::ReadError
                | Fault::ShortRead
                | Fault::MisdirectedRead
        );
        if is_told_by_device {
            self.injected += 1;
            self.detected += u64::from(told > 0);
            assert_eq!(refused, 0, "{:?}: a record was lost", self.fault);
        } else if expected > 0 {
            // It struck bytes of live records: one that strikes nothing is no fault.
            self.injected += 1;
            self.detected += u64::from(told > 0 && refused == expected);
        } else {
            assert_eq!(refused, 0, "{:?} has struck nothing", self.fault);
        }
        let device = self.run.tier.device();
        device.bytes.copy_from_slice(&device.truth.clone());
        self.churn();
        while self.run.put().is_ok() {}
    }

    /// How many live records have bytes that are wrong.
    fn struck(&mut self) -> u64 {
        let numbers = self.run.held.keys();
        let places: Vec<(u64, u64)> = numbers
            .filter_map(|number| self.run.tier.place(Handle::of_number(*number)))
            .collect();
        let device = self.run.tier.device();
        let is_struck = |(at, length): &&(u64, u64)| {
            let range = *at as usize..(at + length) as usize;
            device.bytes[range.clone()] != device.truth[range]
        };
        places.iter().filter(is_struck).count() as u64
    }
}

const KINDS: [Fault; 11] = [
    Fault::TornWrite,
    Fault::MisdirectedWrite,
    Fault::LostWrite,
    Fault::BitRot,
    Fault::Replay,
    Fault::MisdirectedRead,
    Fault::ReadError,
    Fault::ShortRead,
    Fault::NoSpace,
    Fault::WriteError,
    Fault::ShortWrite,
];

fn inject(each: u64, seeds: u64) {
    for fault in KINDS {
        let (mut injected, mut detected) = (0, 0);
        let mut seed = 0;
        while injected < each {
            let mut episode = Episode::new(fault, seed * 31 + fault as u64);
            while episode.injected < each.div_ceil(seeds) {
                episode.once();
            }
            episode.run.tier.check_invariants();
            injected += episode.injected;
            detected += episode.detected;
            seed += 1;
        }
        println!("{fault:?}: {injected} injected, {detected} detected, no wrong byte");
        assert_eq!(injected, detected, "{fault:?}");
    }
}

#[test]
fn every_fault_is_detected() {
    inject(400, 4);
}

/// `cargo test --release -p coldpress-tier -- --ignored --nocapture`
#[test]
#[ignore = "a million faults: minutes"]
fn every_fault_of_a_hundred_thousand_is_detected() {
    inject(100_000, 100);
}

/// A device that takes nothing at all: what was taken before stays, in memory, and new records are refused.
#[test]
fn a_dead_device_loses_nothing_that_was_taken() {
    for fault in [Fault::NoSpace, Fault::WriteError] {
        let mut run = Run::new(SEGMENTS, 400, 77, None);
        let mut refused = 0;
        run.tier.device().always = Some(fault);
        while refused < 50 {
            match run.put() {
                Ok(_) => {}
                Err(Refused::Device(_)) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        let all: Vec<u32> = run.held.keys().copied().collect();
        assert!(!all.is_empty());
        all.iter().for_each(|number| run.get(*number).unwrap());
        run.tier.check_invariants();
        assert_eq!(run.tier.sync(), Err(Refused::Device(error_of(fault))));
        // It lives again, and goes on.
        run.tier.device().always = None;
        run.put().unwrap();
        run.tier.sync().unwrap();
        all.iter().for_each(|number| run.get(*number).unwrap());
    }
}

fn error_of(fault: Fault) -> DeviceError {
    match fault {
        Fault::NoSpace => DeviceError::NoSpace,
        _ => DeviceError::Io,
    }
}

/// A device that does not answer for a while: nothing is given up, though there is room only for what a cleaning would
/// move; and it is asked once for each record.
#[test]
fn a_device_that_does_not_answer_loses_nothing() {
    for seed in 0..20 {
        let mut run = Run::new(SEGMENTS, 400, seed, None);
        while run.put().is_ok() {}
        (0..run.held.len() / 2).for_each(|_| {
            let number = run.any().unwrap();
            run.remove(number);
        });
        run.tier.device().is_away = true;
        let refused = loop {
            match run.put() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(refused, Refused::Device(DeviceError::Unreachable));
        let before = run.tier.device().reads;
        let all: Vec<u32> = run.held.keys().copied().collect();
        let is_away = |number: &&u32| run.get(**number).is_err();
        let away = all.iter().filter(is_away).count();
        assert!(away > 0 && away < all.len());
        assert_eq!(run.tier.device().reads - before, away as u64, "once each");
        run.tier.device().is_away = false;
        all.iter().for_each(|number| run.get(*number).unwrap());
        run.put().unwrap();
        run.tier.check_invariants();
        let counts = run.tier.counts();
        assert_eq!((counts.lost_records, counts.damaged_reads), (0, 0));
    }
}

/// The bug: a device that stopped answering in the middle of a cleaning cost all records that were left in the segment.
/// It stops at each of them here, and answers again.
#[test]
fn a_device_that_stops_answering_while_a_segment_is_cleaned_loses_nothing() {
    let mut stopped = 0;
    for answers in 0.. {
        let mut run = Run::new(SEGMENTS, 400, 5, None);
        while run.put().is_ok() {}
        (0..run.held.len() / 3).for_each(|_| {
            let number = run.any().unwrap();
            run.remove(number);
        });
        let cleaned = |run: &Run| run.tier.counts().cleaned_segments;
        let before = cleaned(&run);
        run.tier.device().answers = answers;
        let refused = loop {
            match run.put() {
                Ok(_) if cleaned(&run) > before => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        // Whatever is put or given up meanwhile.
        for _ in 0..3 {
            let number = run.any().unwrap();
            run.remove(number);
            let _ = run.put();
        }
        run.tier.check_invariants();
        run.tier.device().answers = u64::MAX;
        let all: Vec<u32> = run.held.keys().copied().collect();
        all.iter().for_each(|number| run.get(*number).unwrap());
        run.put().unwrap();
        while run.put().is_ok() {}
        let all: Vec<u32> = run.held.keys().copied().collect();
        all.iter().for_each(|number| run.get(*number).unwrap());
        run.tier.check_invariants();
        let counts = run.tier.counts();
        assert_eq!((counts.lost_records, counts.damaged_reads), (0, 0));
        match refused {
            Some(Refused::Device(DeviceError::Unreachable)) => stopped += 1,
            Some(error) => panic!("{error:?}"),
            None => break,
        }
    }
    assert!(stopped > 5, "{stopped}");
}
