//! Promise: a whole disk on a tier on another machine has every block that was written; a store that is lost costs the
//! blocks that were there, which are refused, and no other.

use crate::common::patience;
use crate::common::process::Directory;
use crate::redis::Redis;
use coldpress_codec::CodecKind;
use coldpress_disk::{
    BackingError, Cache, CacheOptions, IoError, SEGMENT_BYTES, TierDevice, TierFile, TierStore,
    Which, segments_for,
};
use coldpress_remote::{Fallback, Figures, RemoteDevice};
use std::sync::Arc;

const SIZE: u64 = 16 << 20;
const LIMIT: u64 = 4 << 20;
const PAGE: usize = 4096;

/// A page that says which it is and of which version; half of them do not compress.
fn page(number: u64, version: u64) -> Vec<u8> {
    let mut state = number << 20 | version << 1 | 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let words = (0..PAGE as u64 / 8).map(|n| match n {
        0 => number,
        _ if number.is_multiple_of(2) => word(),
        _ => (version << 32) | (n / 16),
    });
    words.flat_map(u64::to_le_bytes).collect()
}

struct Disk {
    cache: Cache,
    store: Arc<TierStore>,
    figures: Box<dyn Fn() -> Figures>,
}

fn disk(server: &Redis, fallback: Option<&Directory>) -> Disk {
    let fallback = fallback.map(|directory| {
        let file = TierFile::create(&directory.0.join("fallback"), SIZE).unwrap();
        Fallback {
            segments: file.segments(),
            device: Box::new(file),
        }
    });
    let segments = segments_for(SIZE);
    let store = Box::new(server.store());
    let layout = (segments, SEGMENT_BYTES);
    let device = RemoteDevice::new(store, "disk", layout, patience(), fallback).unwrap();
    let counts = device.counts();
    let device = TierDevice::new(Box::new(device), segments, 0);
    let store = Arc::new(TierStore::new(device, SIZE, CodecKind::best(), None).unwrap());
    let cache = Cache::new(Box::new(store.clone()), CacheOptions::new(LIMIT)).unwrap();
    Disk {
        cache,
        store,
        figures: Box::new(move || counts.figures()),
    }
}

impl Disk {
    fn write(&self, pages: std::ops::Range<u64>, version: u64) -> Result<(), IoError> {
        for number in pages {
            self.cache
                .write(number * PAGE as u64, &page(number, version))?;
        }
        Ok(())
    }

    /// Reads pages: those that are refused. The others are right.
    fn refused(&self, pages: std::ops::Range<u64>, version: u64) -> Vec<u64> {
        let mut refused = Vec::new();
        for number in pages {
            let mut read = vec![0; PAGE];
            match self.cache.read(number * PAGE as u64, &mut read) {
                Ok(()) => assert!(read == page(number, version), "page {number}"),
                Err(IoError::Backing(BackingError::Io)) => refused.push(number),
                Err(error) => panic!("page {number}: {error}"),
            }
        }
        refused
    }
}

const PAGES: u64 = 3800;

#[test]
fn a_disk_on_redis_is_its_blocks() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    let disk = disk(&server, None);
    disk.write(0..PAGES, 1).unwrap();
    assert_eq!(disk.refused(0..PAGES, 1).len(), 0);
    disk.write(0..PAGES, 2).unwrap();
    assert_eq!(disk.refused(0..PAGES, 2).len(), 0);
    let figures = (disk.figures)();
    assert!(
        figures.puts > 15 && figures.gets > 500 && figures.deletes > 5,
        "{figures:?}"
    );
    assert_eq!(figures.errors, 0);
    assert!(!server.objects().is_empty());
    disk.store.end();
    assert_eq!(server.objects().len(), 0, "all were deleted at the end");
    assert!(
        !disk.refused(0..PAGES, 2).is_empty(),
        "and cannot be read any more"
    );
}

#[test]
fn a_store_that_is_lost_costs_the_blocks_that_were_there() {
    let Some(mut server) = Redis::start(&[]) else {
        return;
    };
    let directory = Directory::new();
    let disk = disk(&server, Some(&directory));
    disk.write(0..2000, 1).unwrap();
    disk.cache.write_back(Which::All);
    server.kill();
    // The disk goes on, on the local file.
    disk.write(2000..PAGES, 1).unwrap();
    assert!((disk.figures)().fallback_puts > 0);
    assert_eq!(disk.refused(2000..PAGES, 1).len(), 0);
    let gone = disk.refused(0..2000, 1);
    assert!(gone.len() > 500, "{} blocks", gone.len());
    server.start_again();
    assert_eq!(disk.refused(0..2000, 1), gone, "the same are refused");
    for number in &gone {
        disk.write(*number..number + 1, 1).unwrap();
    }
    assert_eq!(
        disk.refused(0..PAGES, 1).len(),
        0,
        "written again, they are there"
    );
}
