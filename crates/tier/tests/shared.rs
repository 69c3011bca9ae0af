//! Promise: records are read and removed by several threads while one writes and cleans: no wrong byte is returned, and
//! none is refused on a device that does its duty. No lock is held while the device works.

use crate::common::Chance;
use coldpress_tier::{
    Access, Device, DeviceError, Handle, Key, Records, Refused, SEAL_BYTES, Segment, Slot, Writer,
    read,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, RwLock};

const SEGMENT: usize = 16 << 10;
const SEGMENTS: usize = 24;
const LONGEST: usize = 600;

/// The tables, and a thread that has them is not at the device.
struct Shared<'a> {
    records: &'a Mutex<Records<'static>>,
}

thread_local! {
    static HELD: AtomicBool = const { AtomicBool::new(false) };
}

impl Access<'static> for Shared<'_> {
    fn with<T>(&mut self, act: impl FnOnce(&mut Records<'static>) -> T) -> T {
        let mut records = self.records.lock().unwrap();
        HELD.with(|held| held.store(true, Relaxed));
        let done = act(&mut records);
        HELD.with(|held| held.store(false, Relaxed));
        done
    }
}

/// Memory as a device, of which each thread has its own.
#[derive(Clone, Copy)]
struct InMemory<'a>(&'a RwLock<Vec<u8>>, &'a Space);

/// Segments that have space, and how many may.
#[derive(Default)]
struct Space(Mutex<BTreeSet<u64>>, usize);

impl Space {
    fn of(most: usize) -> Self {
        Self(Mutex::default(), most)
    }

    fn is_there(&self, offset: u64) -> bool {
        let mut there = self.0.lock().unwrap();
        let number = offset / SEGMENT as u64;
        there.contains(&number) || there.len() < self.1 && there.insert(number)
    }
}

fn nothing_is_held() {
    HELD.with(|held| assert!(!held.load(Relaxed), "the tables are held at the device"));
}

impl Device for InMemory<'_> {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError> {
        nothing_is_held();
        std::thread::yield_now();
        into.copy_from_slice(&self.0.read().unwrap()[offset as usize..][..into.len()]);
        Ok(into.len())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, DeviceError> {
        nothing_is_held();
        std::thread::yield_now();
        if !self.1.is_there(offset) {
            return Err(DeviceError::NoSpace);
        }
        self.0.write().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    /// What is given up is gone.
    fn discard(&mut self, offset: u64, length: u64) -> Result<(), DeviceError> {
        nothing_is_held();
        self.0.write().unwrap()[offset as usize..][..length as usize].fill(0xDD);
        self.1.0.lock().unwrap().remove(&(offset / SEGMENT as u64));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

fn leaked<T: Clone>(value: T, count: usize) -> &'static mut [T] {
    Box::leak(vec![value; count].into_boxed_slice())
}

fn records() -> Records<'static> {
    Records::new(
        leaked(Slot::default(), 4000),
        leaked(Segment::default(), SEGMENTS),
        leaked(0, SEGMENT),
    )
}

fn content(owner: u64) -> Vec<u8> {
    let mut chance = Chance::new(owner);
    let length = 1 + chance.below(LONGEST as u64);
    (0..length).map(|_| chance.below(256) as u8).collect()
}

/// What is held: numbers of records by owner.
type Held = Mutex<BTreeMap<u64, u32>>;

/// Takes a record out, so that nobody else removes it meanwhile.
fn take(held: &Held, chance: &mut Chance) -> Option<(u64, u32)> {
    let mut held = held.lock().unwrap();
    let last = *held.keys().next_back()?;
    let from = chance.below(last + 1);
    let owner = *held.range(from..).next()?.0;
    held.remove(&owner).map(|number| (owner, number))
}

#[test]
fn readers_meet_a_writer_that_cleans() {
    read_while_it_cleans(SEGMENTS);
}

/// The device has space for a half of its segments.
#[test]
fn readers_meet_a_writer_that_cleans_for_want_of_space() {
    read_while_it_cleans(SEGMENTS / 2);
}

fn read_while_it_cleans(segments_with_space: usize) {
    let space = &Space::of(segments_with_space);
    let tables = Mutex::new(records());
    let device = RwLock::new(vec![0; SEGMENTS * SEGMENT]);
    let (held, done, reads) = (Held::default(), AtomicBool::new(false), AtomicU64::new(0));
    // So many leave too few segments free, so that the writer cleans however fast the readers are.
    let enough = segments_with_space * SEGMENT * 3 / 4 / (LONGEST / 2 + SEAL_BYTES);
    let mut writer = Writer::new(Key::new(&[9; 32]), leaked(0, 5000), None, 0);
    let opener = writer.opener().clone();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (tables, device, held, done, reads, opener) =
                (&tables, &device, &held, &done, &reads, &opener);
            scope.spawn(move || {
                let mut chance = Chance::new(77 + seed);
                let mut room = [0; LONGEST + SEAL_BYTES];
                while !done.load(Relaxed) {
                    let Some((owner, number)) = take(held, &mut chance) else {
                        std::thread::yield_now();
                        continue;
                    };
                    let mut shared = Shared { records: tables };
                    let record = (Handle::of_number(number), owner);
                    let length = read(
                        &mut shared,
                        &mut InMemory(device, space),
                        opener,
                        record,
                        &mut room,
                    );
                    assert!(
                        room[..length.unwrap()] == content(owner)[..],
                        "a wrong byte"
                    );
                    reads.fetch_add(1, Relaxed);
                    let mut held = held.lock().unwrap();
                    if chance.below(2) == 0 && held.len() > enough {
                        drop(held);
                        assert!(shared.with(|records| records.remove(record.0, owner)));
                    } else {
                        held.insert(owner, number);
                    }
                }
            });
        }
        let mut shared = Shared { records: &tables };
        let mut owner = 0;
        let enough_happened =
            || reads.load(Relaxed) > 1000 && tables.lock().unwrap().counts().moved_records > 5000;
        while !enough_happened() && owner < 2_000_000 {
            owner += 1;
            let bytes = content(owner);
            match writer.put(&mut shared, &mut InMemory(&device, space), owner, &bytes) {
                Ok(handle) => drop(held.lock().unwrap().insert(owner, handle.number())),
                Err(Refused::Full | Refused::Device(DeviceError::NoSpace)) => {
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        done.store(true, Relaxed);
    });
    let records = tables.into_inner().unwrap();
    records.check_invariants();
    let counts = records.counts();
    assert!(
        counts.moved_records > 5000 && reads.load(Relaxed) > 1000,
        "{counts:?}"
    );
    assert_eq!((counts.lost_records, counts.read_errors), (0, 0));
    assert_eq!(
        counts.no_space_errors > 0,
        segments_with_space < SEGMENTS,
        "{counts:?}"
    );
    assert_eq!(counts.records, held.lock().unwrap().len() as u64);
}

/// What is kept for others is neither written again, nor given up, until nobody reads it any more.
#[test]
fn what_is_kept_stays() {
    let mut tables = records();
    let space = Space::of(SEGMENTS);
    let device = RwLock::new(vec![0; SEGMENTS * SEGMENT]);
    let mut writer = Writer::new(Key::new(&[3; 32]), leaked(0, 5000), None, 0);
    let mut fill = |tables: &mut Records<'static>, from: u64| {
        let mut taken = Vec::new();
        for owner in from.. {
            match writer.put(
                tables,
                &mut InMemory(&device, &space),
                owner,
                &content(owner),
            ) {
                Ok(handle) => taken.push((handle, owner)),
                Err(Refused::Full) => return taken,
                Err(error) => panic!("{error:?}"),
            }
        }
        unreachable!()
    };
    let first = fill(&mut tables, 1);
    let (kept, rest) = first.split_at(first.len() / 2);
    rest.iter()
        .for_each(|&(handle, owner)| assert!(tables.remove(handle, owner)));
    let places: Vec<_> = kept
        .iter()
        .filter_map(|&(handle, _)| tables.place(handle))
        .collect();
    let bytes = |&(at, length): &(u64, u64)| {
        device.read().unwrap()[at as usize..(at + length) as usize].to_vec()
    };
    let before: Vec<_> = places.iter().map(bytes).collect();
    tables.keep_all();
    assert!(tables.kept_segments() > 5);
    kept.iter()
        .for_each(|&(handle, owner)| assert!(tables.remove(handle, owner)));
    for round in 0..20 {
        let more = fill(&mut tables, 100_000 * (round + 1));
        assert!(!more.is_empty());
        more.iter()
            .for_each(|&(handle, owner)| assert!(tables.remove(handle, owner)));
        tables.check_invariants();
    }
    assert!(
        before
            .iter()
            .eq(&places.iter().map(bytes).collect::<Vec<_>>())
    );
    let least = fill(&mut tables, 5_000_000);
    least
        .iter()
        .for_each(|&(handle, owner)| assert!(tables.remove(handle, owner)));
    tables.end_keeping();
    tables.check_invariants();
    assert_eq!(tables.kept_segments(), 0);
    assert!(fill(&mut tables, 6_000_000).len() > least.len() * 3 / 2);
}
