//! What a hit costs, beside a plain hash map: look-up and copy of a page, of 64 bytes of one, and of a
//! small entry of 64 bytes. And how readers scale.
//! `cargo run --release -p coldpress-cache --example hit_cost [MiB ...]`.
//!
//! Rounds of both alternate, and the fastest round of each counts, so that a busy machine harms both
//! alike.

use coldpress_cache::{Backing, Cache, Options, PAGE_BYTES};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Barrier, RwLock};
use std::time::Instant;

type Page = [u8; PAGE_BYTES];

/// The map's pages in one allocation like the cache's, or each in its own.
struct Map(HashMap<u64, Box<Page>>);

const READS: usize = 200_000;
const ROUNDS: usize = 15;

fn keys(entries: u64) -> Vec<u64> {
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % entries
    };
    (0..READS)
        .map(|_| next().wrapping_mul(0x9e37_79b9))
        .collect()
}

/// Nanoseconds a read, of `bytes` bytes each.
fn time(keys: &[u64], bytes: usize, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> f64 {
    let mut page = [0; PAGE_BYTES];
    let started = Instant::now();
    let found = keys.iter().filter(|&&key| {
        let found = read(key, &mut page[..bytes]);
        black_box(&page);
        found
    });
    assert_eq!(found.count(), keys.len());
    started.elapsed().as_nanos() as f64 / keys.len() as f64
}

fn compare(mib: usize) {
    let entries = (mib << 20) / PAGE_BYTES;
    let cache = Cache::new(Options::new(mib << 20, Backing::LazyFree)).unwrap();
    let mut map = Map(HashMap::with_capacity(entries));
    for entry in 0..entries as u64 {
        let key = entry.wrapping_mul(0x9e37_79b9);
        let page = [entry as u8; PAGE_BYTES];
        cache.insert(key, &page).unwrap();
        map.0.insert(key, Box::new(page));
    }
    let keys = keys(entries as u64);
    let shared = RwLock::new(map);
    for bytes in [PAGE_BYTES, 64] {
        let mut best = [f64::MAX; 3];
        for _ in 0..ROUNDS {
            best[0] = best[0].min(time(&keys, bytes, |key, into| cache.get(key, into)));
            let map = shared.read().unwrap();
            best[1] = best[1].min(time(&keys, bytes, |key, into| copy(&map, key, into)));
            drop(map);
            best[2] = best[2].min(time(&keys, bytes, |key, into| {
                copy(&shared.read().unwrap(), key, into)
            }));
        }
        println!(
            "{mib:>5} MiB, {bytes:>4} bytes: cache {:.0} ns, HashMap {:.0} ns, HashMap in a RwLock {:.0} ns; \
             ratio to HashMap {:.2}",
            best[0],
            best[1],
            best[2],
            best[0] / best[1]
        );
    }
    scale(&cache, &keys, mib);
    compare_small(mib);
}

fn copy(map: &Map, key: u64, into: &mut [u8]) -> bool {
    let page = map.0.get(&key);
    page.map(|page| into.copy_from_slice(&page[..into.len()]))
        .is_some()
}

/// Small entries of 64 bytes, as many as fit into as many MiB, against a map that has them in place, and one
/// that has each in an allocation.
fn compare_small(mib: usize) {
    let entries = (mib << 20) / PAGE_BYTES * 51;
    let cache = Cache::new(Options {
        small_entries: entries,
        ..Options::new(mib << 20, Backing::LazyFree)
    })
    .unwrap();
    let mut inline: HashMap<u64, [u8; 64]> = HashMap::with_capacity(entries);
    let mut boxed: HashMap<u64, Box<[u8]>> = HashMap::with_capacity(entries);
    for entry in 0..entries as u64 {
        let key = entry.wrapping_mul(0x9e37_79b9);
        let bytes = [entry as u8; 64];
        cache.insert_small(key, &bytes).unwrap();
        inline.insert(key, bytes);
        boxed.insert(key, Box::new(bytes));
    }
    // What the index gave up, and what pages went for it, is not asked for.
    let keys: Vec<u64> = keys(entries as u64)
        .into_iter()
        .filter(|&key| cache.get_small(key, &mut [0; 64]).is_some())
        .collect();
    let mut best = [f64::MAX; 3];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(time(&keys, 64, |key, into| {
            cache.get_small(key, into).is_some()
        }));
        best[1] = best[1].min(time(&keys, 64, |key, into| {
            let bytes = inline.get(&key);
            bytes.map(|bytes| into.copy_from_slice(bytes)).is_some()
        }));
        best[2] = best[2].min(time(&keys, 64, |key, into| {
            let bytes = boxed.get(&key);
            bytes.map(|bytes| into.copy_from_slice(bytes)).is_some()
        }));
    }
    let [ours, inline, boxed] = best;
    println!(
        "{mib:>5} MiB, small entries of 64 bytes: cache {ours:.0} ns, HashMap of arrays {inline:.0} ns, of boxes {boxed:.0} ns; \
         ratios {:.2} and {:.2}; {} of {entries} asked for",
        ours / inline,
        ours / boxed,
        keys.len(),
    );
}

fn scale(cache: &Cache, keys: &[u64], mib: usize) {
    let mut best = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        for threads in [1, 2] {
            let barrier = Barrier::new(threads);
            let slowest = std::thread::scope(|scope| {
                let readers: Vec<_> = (0..threads)
                    .map(|_| {
                        scope.spawn(|| {
                            barrier.wait();
                            time(keys, PAGE_BYTES, |key, into| cache.get(key, into))
                        })
                    })
                    .collect();
                let times = readers.into_iter().map(|reader| reader.join().unwrap());
                times.fold(0.0, f64::max)
            });
            best[threads - 1] = best[threads - 1].min(slowest / threads as f64);
        }
    }
    println!(
        "{mib:>5} MiB: one reader {:.0} ns a read, two {:.0} ns: {:.2} times as many reads",
        best[0],
        best[1],
        best[0] / best[1]
    );
}

fn main() {
    let sizes: Vec<usize> = std::env::args()
        .skip(1)
        .map(|size| size.parse().expect("a number of MiB"))
        .collect();
    let sizes = if sizes.is_empty() {
        vec![1, 64, 512]
    } else {
        sizes
    };
    sizes.into_iter().for_each(compare);
}
