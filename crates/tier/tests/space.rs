//! Promise: a device that has no space left for more goes on taking records where others are removed, as a file on a
//! full file system does: segments of which a part is dead are cleaned. What is not needed any more is given up.
//!
//! The story: `run --writeback` on a full file system refused every page until a segment was dead as a whole, although
//! half of what the file held was not needed any more.

use crate::common::Chance;
use coldpress_tier::{Device, DeviceError, Handle, Key, Memory, Refused, Segment, Slot, Tier};
use std::collections::{BTreeMap, BTreeSet};

const SEGMENT: usize = 4096;
const SEGMENTS: usize = 64;
/// What is written is stored in blocks of so many bytes; what is written again needs no more.
const BLOCK: usize = 512;
const RECORD: usize = 200;

/// A file of a file system with room for so many blocks.
struct Sparse {
    blocks: BTreeMap<usize, [u8; BLOCK]>,
    most: usize,
    /// Each block that was ever discarded.
    discarded: BTreeSet<usize>,
}

impl Device for Sparse {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError> {
        for (at, byte) in (offset as usize..).zip(into.iter_mut()) {
            let block = self.blocks.get(&(at / BLOCK));
            *byte = block.map_or(0, |block| block[at % BLOCK]);
        }
        Ok(into.len())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, DeviceError> {
        for (done, (at, &byte)) in (offset as usize..).zip(bytes).enumerate() {
            if !self.blocks.contains_key(&(at / BLOCK)) && self.blocks.len() >= self.most {
                return match done {
                    0 => Err(DeviceError::NoSpace),
                    _ => Ok(done),
                };
            }
            let block = self.blocks.entry(at / BLOCK).or_insert([0; BLOCK]);
            block[at % BLOCK] = byte;
        }
        Ok(bytes.len())
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let (from, to) = (offset as usize / BLOCK, (offset + length) as usize / BLOCK);
        for block in from..to {
            self.blocks.remove(&block);
            self.discarded.insert(block);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

fn leaked<T: Clone>(value: T, count: usize) -> &'static mut [T] {
    Box::leak(vec![value; count].into_boxed_slice())
}

struct Run {
    tier: Tier<'static, Sparse>,
    held: BTreeMap<u32, [u8; RECORD]>,
    chance: Chance,
}

impl Run {
    fn new(seed: u64, most: usize) -> Self {
        let device = Sparse {
            blocks: BTreeMap::new(),
            most,
            discarded: BTreeSet::new(),
        };
        let memory = Memory {
            slots: leaked(Slot::default(), 4000),
            segments: leaked(Segment::default(), SEGMENTS),
            buffer: leaked(0, SEGMENT),
            scratch: leaked(0, RECORD + Memory::SCRATCH_BYTES),
        };
        Self {
            tier: Tier::new(device, Key::new(&[seed as u8; 32]), memory, None, 0),
            held: BTreeMap::new(),
            chance: Chance::new(seed),
        }
    }

    fn put(&mut self) -> Result<(), Refused> {
        let bytes = std::array::from_fn(|_| self.chance.below(256) as u8);
        let handle = self.tier.put(1, &bytes)?;
        self.held.insert(handle.number(), bytes);
        Ok(())
    }

    /// Puts until it is refused: how many were taken.
    fn fill(&mut self) -> usize {
        let mut taken = 0;
        loop {
            match self.put() {
                Ok(()) => taken += 1,
                Err(Refused::Device(DeviceError::NoSpace)) => return taken,
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Removes a part of what is held, evenly.
    fn remove(&mut self, one_in: u64) -> usize {
        let all: Vec<u32> = self.held.keys().copied().collect();
        let mut removed = 0;
        for number in all {
            if self.chance.below(one_in) == 0 {
                assert!(self.tier.remove(Handle::of_number(number), 1));
                self.held.remove(&number);
                removed += 1;
            }
        }
        removed
    }

    fn check(&mut self) {
        self.tier.check_invariants();
        let mut room = [0; RECORD];
        for (&number, bytes) in &self.held {
            let length = self.tier.get(Handle::of_number(number), 1, &mut room);
            assert_eq!((length, &room), (Ok(RECORD), bytes), "{number}");
        }
        assert_eq!(self.tier.counts().lost_records, 0);
    }
}

#[test]
fn a_full_device_takes_what_is_removed_evenly() {
    for (seed, one_in) in [(1, 2), (2, 2), (3, 3)] {
        let mut run = Run::new(seed, 20 * SEGMENT / BLOCK);
        let first = run.fill();
        run.check();
        for _ in 0..20 {
            let removed = run.remove(one_in);
            let taken = run.fill();
            run.check();
            assert!(
                taken * 2 > removed,
                "{taken} were taken where {removed} of {first} had left: {:?}",
                run.tier.counts()
            );
        }
        assert!(run.tier.counts().moved_records > 0);
    }
}

/// Space that is there again is used, and the reserve is as large as it was.
#[test]
fn space_that_comes_back_is_used() {
    let mut run = Run::new(7, 10 * SEGMENT / BLOCK);
    let first = run.fill();
    run.remove(2);
    run.fill();
    run.tier.device().most *= 2;
    assert!(run.fill() * 10 > first * 8);
    run.check();
    run.tier.device().most = 0;
    run.remove(3);
    assert!(run.fill() > first / 10, "what is stored is overwritten");
    run.check();
}

/// When nothing is held any more the device holds nothing, and it begins anew.
#[test]
fn nothing_is_kept_when_nothing_is_held() {
    let mut run = Run::new(8, 20 * SEGMENT / BLOCK);
    for _ in 0..3 {
        assert!(run.fill() > 200);
        run.remove(1);
        run.tier.check_invariants();
        assert_eq!(run.tier.device().blocks.len() % (SEGMENT / BLOCK), 0);
        run.put().unwrap();
        run.tier.sync().unwrap();
        run.remove(1);
        let device = run.tier.device();
        assert!(device.blocks.is_empty(), "{} blocks", device.blocks.len());
        assert!(!device.discarded.is_empty());
    }
}
