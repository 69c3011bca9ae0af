//! Promise: an error of the store is told to who asked, counted, and loses nothing that the pool holds.

use super::faulty::{Faults, Faulty};
use super::{Scratch, cache, read};
use crate::common::{mix, noise, text};
use coldpress_disk::{BackingError, Cache, IoError, Which, Zeroing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const SIZE: u64 = 8 << 20;

struct Run {
    file: Scratch,
    cache: Cache,
    faults: Arc<Faults>,
    bytes: Vec<u8>,
    seed: u64,
    refused: u64,
}

impl Run {
    fn new(seed: u64, limit_bytes: u64) -> Self {
        let file = Scratch::new();
        let (layer, faults) = Faulty::new(file.create(SIZE));
        faults.chance.store(seed << 32, SeqCst);
        Self {
            file,
            cache: cache(layer, limit_bytes),
            faults,
            bytes: vec![0; SIZE as usize],
            seed,
            refused: 0,
        }
    }

    fn chance(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        mix(self.seed) % below
    }

    fn range(&mut self) -> (u64, usize) {
        let at = self.chance(SIZE);
        let length = match self.chance(2) {
            0 => 1 + self.chance(6000),
            _ => 1 + self.chance(300_000),
        };
        let at = if self.chance(2) == 0 {
            at / 4096 * 4096
        } else {
            at
        };
        (at, length.min(SIZE - at) as usize)
    }

    /// What a change that failed has left: of each byte the old or the new one.
    fn resume(&mut self, at: u64, new: &[u8]) {
        self.refused += 1;
        let one_in = self.faults.one_in.swap(0, SeqCst);
        let found = read(&self.cache, at, new.len());
        self.faults.one_in.store(one_in, SeqCst);
        let old = &mut self.bytes[at as usize..][..new.len()];
        for (n, byte) in found.iter().enumerate() {
            let is_either = *byte == old[n] || *byte == new[n];
            assert!(is_either, "byte {} is neither old nor new", at + n as u64);
        }
        old.copy_from_slice(&found);
    }

    fn change(&mut self, at: u64, new: &[u8], changed: Result<(), IoError>) {
        match changed {
            Ok(()) => self.bytes[at as usize..][..new.len()].copy_from_slice(new),
            Err(IoError::Backing(_)) => self.resume(at, new),
            Err(error) => panic!("{error:?}"),
        }
    }

    fn step(&mut self, with_trims: bool) {
        let (at, len) = self.range();
        match self.chance(if with_trims { 12 } else { 10 }) {
            0..3 => {
                let data = text(self.seed, len);
                let written = self.cache.write(at, &data);
                self.change(at, &data, written);
            }
            3..5 => {
                let data = noise(self.seed, len);
                let written = self.cache.write(at, &data);
                self.change(at, &data, written);
            }
            5..8 => {
                let mut buffer = vec![0; len];
                match self.cache.read(at, &mut buffer) {
                    Ok(()) => assert!(buffer == self.bytes[at as usize..][..len], "{at} {len}"),
                    Err(error) => assert_eq!(error, IoError::Backing(BackingError::Io)),
                }
            }
            8 => {
                // In the file, or an error.
                if self.cache.flush().is_ok() {
                    assert!(self.file.content() == self.bytes, "a flush that lies");
                }
            }
            9 => drop(self.cache.shrink(300)),
            _ => {
                let zeroing = if at % 2 == 0 {
                    Zeroing::MayPunch
                } else {
                    Zeroing::KeepAllocated
                };
                let zeroed = self.cache.write_zeroes(at, len as u64, zeroing);
                self.change(at, &vec![0; len], zeroed);
            }
        }
    }

    /// The store works again: all is there, and goes to the file.
    fn end(self) {
        self.faults.one_in.store(0, SeqCst);
        assert!(read(&self.cache, 0, SIZE as usize) == self.bytes, "lost");
        // An error that is owed, if any.
        let _ = self.cache.flush();
        self.cache.flush().unwrap();
        assert!(self.file.content() == self.bytes, "the file at the end");
        self.cache.check_invariants();
    }
}

#[test]
fn errors_of_the_store_lose_nothing_that_is_held() {
    let mut injected = 0;
    for seed in 0..12 {
        let mut run = Run::new(seed, 4 << 20);
        run.faults.one_in.store(3 + seed, SeqCst);
        for _ in 0..150 {
            run.step(true);
        }
        let statistics = run.cache.statistics();
        injected += run.faults.injected.load(SeqCst);
        assert!(statistics.backing_write_errors > 0, "{statistics:?}");
        assert!(statistics.backing_read_errors > 0, "{statistics:?}");
        run.end();
    }
    assert!(injected > 500, "{injected} faults");
}

/// A kernel that cannot write a page says so once, at a sync, and drops it. Nothing goes past the pool here, so whatever
/// is taken back is held still.
#[test]
fn a_sync_that_fails_takes_nothing_back() {
    for seed in 100..106 {
        let mut run = Run::new(seed, 64 << 20);
        run.faults.takes_back.store(true, SeqCst);
        run.faults.one_in.store(4, SeqCst);
        for _ in 0..150 {
            run.step(false);
        }
        let statistics = run.cache.statistics();
        assert!(statistics.backing_sync_errors > 0, "{statistics:?}");
        assert_eq!(statistics.written_through_pages, 0, "{statistics:?}");
        run.end();
    }
}

/// While the pool is full writes go past it. The shrinker's sync fails: the next flush has to say so, since the kernel
/// will not say it again.
#[test]
fn a_failed_sync_between_two_flushes_is_told() {
    let mut run = Run::new(7, 4 << 20);
    run.cache.flush().unwrap();
    run.faults.no_sync.store(true, SeqCst);
    let mut at = 0;
    let patience = Instant::now() + Duration::from_secs(60);
    let failed_past = |cache: &Cache| {
        let statistics = cache.statistics();
        statistics.written_through_pages > 0 && statistics.backing_sync_errors > 1
    };
    while !failed_past(&run.cache) {
        assert!(Instant::now() < patience, "{:?}", run.cache.statistics());
        let data = noise(at, 64 << 10);
        run.cache.write(at, &data).unwrap();
        run.bytes[at as usize..][..data.len()].copy_from_slice(&data);
        at = (at + (64 << 10)) % SIZE;
    }
    let errors = run.cache.statistics().backing_sync_errors;
    while run.cache.statistics().backing_sync_errors < errors + 2 {
        assert!(Instant::now() < patience, "{:?}", run.cache.statistics());
        std::thread::sleep(Duration::from_millis(5));
    }
    run.faults.no_sync.store(false, SeqCst);
    assert_eq!(run.cache.flush(), Err(IoError::Backing(BackingError::Io)));
    run.cache.flush().unwrap();
    run.end();
}

/// Nothing of this file is in the store before, nothing can be written: it is all held, and readable.
#[test]
fn a_store_that_takes_nothing_leaves_all_in_the_pool() {
    let run = Run::new(9, 16 << 20);
    let data = text(1, 4 << 20);
    run.cache.write(4096, &data).unwrap();
    run.faults.one_in.store(1, SeqCst);
    for _ in 0..3 {
        assert!(run.cache.flush().is_err());
        assert_eq!(run.cache.shrink(5000), 0);
    }
    assert!(read(&run.cache, 4096, data.len()) == data);
    let statistics = run.cache.statistics();
    assert_eq!(statistics.dirty_pages, 1024);
    assert!(statistics.reject_reclaim_fail >= 6 * 1024);
    run.faults.one_in.store(0, SeqCst);
    run.cache.flush().unwrap();
    assert!(run.file.content()[4096..][..data.len()] == data);
    assert_eq!(run.cache.statistics().dirty_pages, 0);
}

/// A flush found a page written back, and waited for the gate. Meanwhile the shrinker's sync failed, and
/// the page was dirty again. The sync of the flush succeeded, since an error is told once, and so did the flush.
#[test]
fn a_flush_beside_a_failed_sync_does_not_lie() {
    let mut run = Run::new(21, 64 << 20);
    run.faults.takes_back.store(true, SeqCst);
    run.faults.every_other_sync.store(true, SeqCst);
    let (cache, file, ends) = (&run.cache, &run.file, &AtomicBool::new(false));
    let (mut flushed, mut lies) = (0, 0);
    std::thread::scope(|scope| {
        // Writes back and syncs all the time.
        scope.spawn(|| {
            while !ends.load(SeqCst) {
                cache.shrink(64);
            }
        });
        // On a machine with nothing else to do the shrinker is at each second sync, and few flushes succeed.
        for n in 0..100_000_u64 {
            if n >= 2000 && flushed > 10 {
                break;
            }
            let (at, data) = (mix(n) % 64 * 4096, text(n, 4096));
            cache.write(at, &data).unwrap();
            run.bytes[at as usize..][..data.len()].copy_from_slice(&data);
            // Long enough, at times, for the page to be written back.
            std::thread::sleep(Duration::from_micros(mix(n) >> 8 & 255));
            if cache.flush().is_ok() {
                flushed += 1;
                // A sync that fails now takes nothing back: all was synced.
                lies += u32::from(file.part(at, data.len()) != data);
            }
        }
        ends.store(true, SeqCst);
    });
    assert_eq!(lies, 0, "of {flushed} flushes");
    assert!(flushed > 10, "{flushed} flushes");
    run.faults.every_other_sync.store(false, SeqCst);
    run.end();
}

/// The bug: a trim that failed halfway left pages clean of which the store had zeros then. They were evicted without
/// being written back.
#[test]
fn a_trim_that_fails_halfway_loses_nothing_that_is_held() {
    let run = Run::new(13, 16 << 20);
    // Three ranges with a lock each, of which the last is not reached; the first page was not synced since.
    let data = text(1, 192 * 4096);
    run.cache.write(0, &data).unwrap();
    run.cache.flush().unwrap();
    run.cache.write(0, &data[..4096]).unwrap();
    run.faults.spoils.store(true, SeqCst);
    for zeroing in [Zeroing::MayPunch, Zeroing::KeepAllocated] {
        for at in [0, 64 * 4096] {
            let zeroed = run.cache.write_zeroes(at, 128 * 4096, zeroing);
            assert_eq!(zeroed, Err(IoError::Backing(BackingError::Io)));
        }
    }
    run.faults.spoils.store(false, SeqCst);
    assert_eq!(run.cache.write_back(Which::All), 192);
    assert!(read(&run.cache, 0, data.len()) == data, "it was held");
    run.cache.flush().unwrap();
    assert!(run.file.content()[..data.len()] == data);
}

/// A page of text is overwritten by one that does not compress, for which there is no room: the write goes past the
/// pool.
#[test]
fn a_write_past_the_pool_that_fails_halfway_loses_nothing_that_is_held() {
    let run = Run::new(14, 4 << 20);
    let content = |page: u64| text(page, 4096);
    for page in 1024..1664 {
        run.cache.write(page * 4096, &noise(page, 4096)).unwrap();
    }
    for page in 0..512 {
        run.cache.write(page * 4096, &content(page)).unwrap();
        run.cache.pool().settle();
    }
    run.cache.flush().unwrap();
    let held = run.cache.statistics().stored_pages;
    assert_eq!(held, 512 + 640, "there was room for all");
    run.faults.spoils.store(true, SeqCst);
    let refused = (0..512).find(|page| {
        let written = run.cache.write(page * 4096, &noise(*page, 4096));
        written.is_err()
    });
    run.faults.spoils.store(false, SeqCst);
    let page = refused.expect("there is no room");
    run.cache.write_back(Which::All);
    assert!(read(&run.cache, page * 4096, 4096) == content(page));
    run.cache.flush().unwrap();
    assert!(run.file.part(page * 4096, 4096) == content(page));
}
