//! The hard budget is never exceeded, the soft one is returned to while memory is short.

use coldpress_cache::{Backing, Cache, Error, Options, PAGE_BYTES};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const PAGE: u64 = PAGE_BYTES as u64;

/// A page that compresses to a third.
fn page(key: u64) -> Vec<u8> {
    let mut random = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut word = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        [key.to_le_bytes(), (random % 5000).to_le_bytes()].concat()
    };
    (0..PAGE_BYTES / 16).flat_map(|_| word()).collect()
}

fn hits(cache: &Cache, keys: std::ops::Range<u64>) -> u64 {
    let right = |key: &u64| {
        let same = cache.with(*key, |bytes| bytes[..] == page(*key));
        assert_ne!(same, Some(false), "wrong bytes of {key}");
        same.is_some()
    };
    keys.filter(right).count() as u64
}

/// What the kernel would say, in a file of the test's own.
struct Pressure(PathBuf);

impl Pressure {
    fn new(name: &str) -> Pressure {
        let pressure = Pressure(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        pressure.say("0.00");
        pressure
    }

    fn say(&self, average: &str) {
        let account = format!("some avg10={average} avg60=0.00 avg300=0.00 total=1\n");
        std::fs::write(&self.0, account).unwrap();
    }
}

fn check(cache: &Cache) {
    let stats = cache.stats();
    assert!(stats.used_bytes <= stats.hard_bytes, "{stats:?}");
    assert!(stats.resident_bytes + stats.compressed_bytes <= stats.hard_bytes);
}

/// Was seen to fail without `may_hold` in `take_any`.
#[test]
fn the_hard_budget_is_never_exceeded() {
    for backing in [Backing::Anonymous, Backing::DontNeed, Backing::LazyFree] {
        for compressed_bytes in [0, 1 << 20] {
            let cache = Cache::new(Options {
                compressed_bytes,
                small_entries: 1000,
                hard_bytes: 2 << 20,
                ..Options::new(4 << 20, backing)
            })
            .unwrap();
            for key in 0..2500 {
                cache.insert(key, &page(key)).unwrap();
                cache.insert_small(key, &page(key)[..100]).unwrap();
                if key % 7 == 0 {
                    cache.remove(key / 2);
                }
                if key % 5 == 0 {
                    hits(&cache, key / 2..key / 2 + 3);
                }
                if key % 50 == 0 {
                    check(&cache);
                }
            }
            let stats = cache.stats();
            assert!(stats.used_bytes > 3 << 19, "it is used: {stats:?}");
            assert_eq!(stats.compressed_entries > 0, compressed_bytes > 0);
            // And what is left free by hand is room for others.
            for key in 0..2500 {
                cache.remove(key);
            }
            for key in 0..400 {
                cache.insert(key, &page(key)).unwrap();
            }
            check(&cache);
            assert!(hits(&cache, 0..400) > 350);
        }
    }
}

#[test]
fn nothing_shrinks_while_memory_is_not_short() {
    let pressure = Pressure::new("not-short");
    let cache = Cache::new(Options {
        soft_bytes: 1 << 20,
        pressure: pressure.0.clone(),
        ..Options::new(4 << 20, Backing::Anonymous)
    })
    .unwrap();
    for key in 0..1024 {
        cache.insert(key, &page(key)).unwrap();
    }
    assert_eq!(cache.tend(), 0);
    pressure.say("5.00");
    assert_eq!(cache.tend(), 0);
    assert!(!cache.stats().short);
    std::fs::remove_file(&pressure.0).unwrap();
    assert_eq!(cache.tend(), 0, "no account, no sign");
    assert_eq!(cache.stats().used_bytes, 4 << 20);
}

#[test]
fn memory_that_is_short_gets_pages_back_coldest_first_until_the_soft_budget() {
    for backing in [Backing::Anonymous, Backing::DontNeed, Backing::LazyFree] {
        let pressure = Pressure::new(&format!("short-{backing:?}"));
        let cache = Cache::new(Options {
            soft_bytes: 1 << 20,
            pressure: pressure.0.clone(),
            ..Options::new(4 << 20, backing)
        })
        .unwrap();
        for key in 0..1024 {
            cache.insert(key, &page(key)).unwrap();
        }
        assert_eq!(hits(&cache, 0..100), 100);
        pressure.say("5.01");
        let first = cache.tend();
        let stats = cache.stats();
        assert!(
            stats.short && first >= 3 << 19,
            "half of what is above: {first}"
        );
        assert!(stats.used_bytes > 1 << 20, "and not all at once");
        while cache.tend() > 0 {}
        let stats = cache.stats();
        assert!(stats.used_bytes <= 1 << 20 && stats.resident_bytes <= 1 << 20);
        assert!(stats.used_bytes > 1 << 19, "and not much more: {stats:?}");
        assert_eq!(stats.shrunk_bytes, (4 << 20) - stats.used_bytes);
        assert_eq!(hits(&cache, 0..100), 100);
        // Once it is over the cache grows again.
        pressure.say("0.00");
        (0..1024).for_each(|key| cache.insert(key, &page(key)).unwrap());
        cache.tend();
        assert_eq!(cache.stats().used_bytes, 4 << 20);
    }
}

#[test]
fn with_a_tier_what_shrinks_is_compressed_and_the_cheap_goes_last_of_all_but_first_of_these() {
    let pressure = Pressure::new("tier");
    let cache = |soft_bytes| {
        let cache = Cache::new(Options {
            compressed_bytes: 2 << 20,
            soft_bytes,
            pressure: pressure.0.clone(),
            ..Options::new(2 << 20, Backing::Anonymous)
        })
        .unwrap();
        for key in 0..512 {
            let cost = if key < 50 { 100 } else { 1 };
            cache.insert_with_cost(key, &page(key), cost).unwrap();
        }
        pressure.say("50.00");
        while cache.tend() > 0 {}
        pressure.say("0.00");
        let stats = cache.stats();
        assert!(stats.used_bytes <= soft_bytes as u64, "{stats:?}");
        cache
    };
    // Room for all if they are compressed.
    let all = cache(3 << 19);
    let stats = all.stats();
    println!(
        "{} pages, {} compressed",
        stats.entries, stats.compressed_entries
    );
    assert_eq!(
        (stats.discarded, stats.entries + stats.compressed_entries),
        (0, 512)
    );
    assert_eq!(hits(&all, 0..512), 512);
    // For some only: the dear.
    let some = cache(1 << 18);
    let stats = some.stats();
    println!(
        "{} pages, {} compressed",
        stats.entries, stats.compressed_entries
    );
    assert!(stats.entries == 0 && stats.discarded > 0);
    assert_eq!(hits(&some, 0..50), 50);
    assert!(hits(&some, 50..512) < 300);
    // And nothing at all, if need be.
    assert_eq!(cache(PAGE_BYTES / 32).stats().used_bytes, 0);
}

#[test]
fn a_thread_tends_until_it_is_dropped() {
    let pressure = Pressure::new("thread");
    pressure.say("9.00");
    let cache = Arc::new(
        Cache::new(Options {
            soft_bytes: 1 << 20,
            pressure: pressure.0.clone(),
            ..Options::new(4 << 20, Backing::LazyFree)
        })
        .unwrap(),
    );
    let tender = cache.tend_every(Duration::from_millis(2)).unwrap();
    for key in 0..1024 {
        cache.insert(key, &page(key)).unwrap();
    }
    while cache.stats().used_bytes > 1 << 20 {
        std::thread::sleep(Duration::from_millis(2));
        hits(&cache, 0..100);
    }
    drop(tender);
    assert_eq!(Arc::strong_count(&cache), 1, "the thread is gone");
    let shrunk = cache.stats().shrunk_bytes;
    (0..1024).for_each(|key| cache.insert(key, &page(key)).unwrap());
    assert_eq!(cache.stats().shrunk_bytes, shrunk);
}

#[test]
fn budgets_that_contradict_each_other_are_refused() {
    for (hard_bytes, soft_bytes, compressed_bytes) in [
        (1 << 20, (1 << 20) + 1, 0),
        (1 << 20, 0, (1 << 20) - PAGE_BYTES + 1),
        (PAGE_BYTES - 1, 0, 0),
    ] {
        let refused = Cache::new(Options {
            hard_bytes,
            soft_bytes,
            compressed_bytes,
            ..Options::new(4 << 20, Backing::LazyFree)
        });
        assert!(matches!(refused, Err(Error::Budget { .. })));
    }
    let one = Cache::new(Options {
        hard_bytes: PAGE_BYTES,
        ..Options::new(4 << 20, Backing::LazyFree)
    })
    .unwrap();
    for key in 0..10 {
        one.insert(key, &page(key)).unwrap();
        assert_eq!((one.stats().used_bytes, hits(&one, 0..10)), (PAGE, 1));
    }
}
