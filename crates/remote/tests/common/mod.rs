//! A tier on a remote device against a map, and what the tests share.

pub mod fake;
#[cfg(any(feature = "redis", feature = "s3"))]
pub mod process;
#[cfg(any(feature = "redis", feature = "s3"))]
pub mod two_ways;

use coldpress_remote::{Fallback, Figures, Patience, RemoteDevice, Store};
use coldpress_tier::{
    Device, DeviceError, Handle, Key, Memory, Refused, Segment, Slot, Tier, Unreadable,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const SEGMENT: usize = 16 << 10;
pub const SEGMENTS: usize = 24;

/// A generator of chances (xorshift*).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % bound
    }
}

/// Short times, for tests.
pub fn patience() -> Patience {
    Patience {
        timeout: Duration::from_millis(400),
        retries: 1,
        pause: Duration::from_millis(2),
        rest: Duration::from_millis(50),
        longest_rest: Duration::from_millis(200),
    }
}

/// A local device in memory, of which a test has the bytes too.
#[derive(Clone, Default)]
pub struct Local(pub Arc<Mutex<Vec<u8>>>);

impl Device for Local {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError> {
        let bytes = self.0.lock().unwrap();
        let there = bytes.get(offset as usize..).ok_or(DeviceError::Io)?;
        let length = into.len().min(there.len());
        into[..length].copy_from_slice(&there[..length]);
        Ok(length)
    }

    /// It takes 5,000 bytes at once.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, DeviceError> {
        let (mut all, length) = (self.0.lock().unwrap(), bytes.len().min(5000));
        let end = offset as usize + length;
        let longer = end.max(all.len());
        all.resize(longer, 0);
        all[offset as usize..end].copy_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

pub fn device(store: Box<dyn Store>, fallback: Option<&Local>) -> RemoteDevice {
    device_with(store, fallback, patience())
}

pub fn device_with(
    store: Box<dyn Store>,
    fallback: Option<&Local>,
    patience: Patience,
) -> RemoteDevice {
    let fallback = fallback.map(|local| Fallback {
        device: Box::new(local.clone()),
        segments: SEGMENTS,
    });
    RemoteDevice::new(store, "test", (SEGMENTS, SEGMENT), patience, fallback).unwrap()
}

/// A tier, and what it was given.
pub struct Run {
    pub tier: Tier<'static, RemoteDevice>,
    pub held: BTreeMap<u32, (u64, Vec<u8>)>,
    pub chance: Chance,
    owners: u64,
}

fn leaked<T: Clone + Default>(count: usize) -> &'static mut [T] {
    Box::leak(vec![T::default(); count].into_boxed_slice())
}

impl Run {
    pub fn new(device: RemoteDevice, seed: u64) -> Self {
        let memory = Memory {
            slots: leaked::<Slot>(2000),
            segments: leaked::<Segment>(SEGMENTS),
            buffer: leaked(SEGMENT),
            scratch: leaked(SEGMENT / 8),
        };
        Self {
            tier: Tier::new(device, Key::new(&[seed as u8; 32]), memory, None, 0),
            held: BTreeMap::new(),
            chance: Chance::new(seed),
            owners: 0,
        }
    }

    pub fn put(&mut self) -> Result<u32, Refused> {
        let length = 1 + self.chance.below(1800) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| self.chance.below(256) as u8).collect();
        self.owners += 1;
        let handle = self.tier.put(self.owners, &bytes)?;
        self.held.insert(handle.number(), (self.owners, bytes));
        Ok(handle.number())
    }

    /// Puts so many records, removing others where the tier is full.
    pub fn put_many(&mut self, count: usize) {
        for _ in 0..count {
            match self.put() {
                Ok(_) => {}
                Err(Refused::Full) => (0..8).for_each(|_| self.remove_any()),
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Reads a record, whose bytes are right if there are any.
    pub fn get(&mut self, number: u32) -> Result<(), Unreadable> {
        let (owner, bytes) = &self.held[&number];
        let mut into = [0; 2048];
        let length = self
            .tier
            .get(Handle::of_number(number), *owner, &mut into)?;
        assert!(into[..length] == bytes[..], "record {number}: wrong bytes");
        Ok(())
    }

    pub fn any(&mut self) -> Option<u32> {
        let skipped = self.chance.below(self.held.len().max(1) as u64);
        self.held.keys().nth(skipped as usize).copied()
    }

    pub fn remove(&mut self, number: u32) {
        let (owner, _) = self.held.remove(&number).unwrap();
        assert!(self.tier.remove(Handle::of_number(number), owner));
    }

    pub fn remove_any(&mut self) {
        if let Some(number) = self.any() {
            self.remove(number);
        }
    }

    /// Reads all records: those that are refused.
    pub fn refused(&mut self) -> Vec<u32> {
        let all: Vec<u32> = self.held.keys().copied().collect();
        let mut refused = Vec::new();
        for number in all {
            if self.get(number).is_err() {
                refused.push(number);
            }
        }
        refused
    }

    pub fn remove_all_of(&mut self, numbers: &[u32]) {
        numbers.iter().for_each(|number| self.remove(*number));
    }

    /// The segment of a record, if it is on the device.
    pub fn segment_of(&self, number: u32) -> Option<u64> {
        let place = self.tier.place(Handle::of_number(number));
        place.map(|(offset, _)| offset / SEGMENT as u64)
    }

    /// Records of a segment, with their place in it.
    pub fn records_of(&self, segment: u64) -> Vec<(u32, std::ops::Range<u64>)> {
        let place = |number: &u32| {
            let (offset, length) = self.tier.place(Handle::of_number(*number))?;
            let at = offset % SEGMENT as u64;
            let is_there = offset / SEGMENT as u64 == segment;
            is_there.then_some((*number, at..at + length))
        };
        self.held.keys().filter_map(place).collect()
    }

    pub fn figures(&mut self) -> Figures {
        self.tier.device().counts().figures()
    }

    pub fn name(&mut self) -> String {
        self.tier.device().name().to_owned()
    }

    /// Random writing, reading, removing and syncing, with a store that does its duty.
    pub fn live(&mut self, steps: u64) {
        let before = self.tier.counts();
        for step in 0..steps {
            match self.chance.below(20) {
                0..10 => self.put_many(1),
                10..16 => self.remove_any(),
                16 if step % 5 == 0 => match self.tier.sync() {
                    Ok(()) | Err(Refused::Full) => {}
                    Err(error) => panic!("{error:?}"),
                },
                _ => {
                    if let Some(number) = self.any() {
                        self.get(number).unwrap();
                    }
                }
            }
        }
        self.tier.check_invariants();
        assert_eq!(self.refused().len(), 0);
        let counts = self.tier.counts();
        assert_eq!(counts.damaged_reads, before.damaged_reads, "{counts:?}");
        assert_eq!(counts.lost_records, before.lost_records, "{counts:?}");
    }
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = std::time::Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "never {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
