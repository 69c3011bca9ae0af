//! With a compressed tier, what is evicted is not lost.

use coldpress_cache::{Backing, Cache, Options, PAGE_BYTES, Stats};

/// A page that compresses as records do: counters, small numbers, some text.
fn page(key: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    let mut random = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() + 32 <= PAGE_BYTES {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        bytes.extend((key + bytes.len() as u64).to_le_bytes());
        bytes.extend((random % 1000).to_le_bytes());
        bytes.extend(b"state=ok, next=");
        bytes.push((random >> 60) as u8);
    }
    bytes.resize(PAGE_BYTES, 0);
    bytes
}

fn hits(cache: &Cache, keys: std::ops::Range<u64>) -> u64 {
    let whole = |key: &u64| {
        let expected = page(*key);
        let same = cache.with(*key, |bytes| bytes[..] == expected);
        assert_ne!(same, Some(false), "wrong bytes of {key}");
        same.is_some()
    };
    keys.filter(whole).count() as u64
}

fn report(stats: &Stats) {
    println!(
        "{} entries in {} pages, {} more in {} KiB; {} came back, {} given up",
        stats.entries,
        stats.pages,
        stats.compressed_entries,
        stats.compressed_bytes >> 10,
        stats.restored,
        stats.discarded
    );
}

#[test]
fn the_same_memory_keeps_more() {
    // 8 MiB of pages, or 2 of pages and 6 for compressed entries.
    let (entries, first) = (4096, 256);
    let access = |cache: &Cache| {
        for key in 0..entries {
            cache.insert(key, &page(key)).unwrap();
        }
        for _ in 0..3 {
            hits(cache, 0..first);
            hits(cache, first..entries);
        }
        (
            hits(cache, 0..first) as f64 / first as f64,
            hits(cache, first..entries) as f64 / (entries - first) as f64,
        )
    };
    let plain = Cache::new(Options::new(8 << 20, Backing::DontNeed)).unwrap();
    let compressed = Cache::new(Options {
        compressed_bytes: 6 << 20,
        ..Options::new(2 << 20, Backing::DontNeed)
    })
    .unwrap();
    let (plain_first, plain_rest) = access(&plain);
    let (first, rest) = access(&compressed);
    report(&compressed.stats());
    println!("first {first:.2}, rest {rest:.2}; without: {plain_first:.2}, {plain_rest:.2}");
    assert!(first == 1.0 && rest == 1.0);
    assert!(plain_rest < 0.6);
    let stats = compressed.stats();
    assert!(stats.resident_bytes + stats.compressed_bytes <= 8 << 20);
    assert_eq!(stats.entries + stats.compressed_entries, entries);
}

#[test]
fn a_budget_is_kept_and_the_oldest_goes() {
    let cache = Cache::new(Options {
        compressed_bytes: 256 << 10,
        ..Options::new(256 << 10, Backing::Anonymous)
    })
    .unwrap();
    for key in 0..5000 {
        cache.insert(key, &page(key)).unwrap();
        assert!(key % 100 != 0 || cache.stats().compressed_bytes <= 256 << 10);
    }
    let stats = cache.stats();
    report(&stats);
    assert!(stats.discarded > 0 && stats.compressed_entries > 64);
    assert_eq!(hits(&cache, 0..1000), 0);
}

#[test]
fn readers_in_threads_find_right_bytes_while_entries_come_and_go() {
    let cache = Cache::new(Options {
        compressed_bytes: 8 << 20,
        ..Options::new(512 << 10, Backing::LazyFree)
    })
    .unwrap();
    for key in 0..1000 {
        cache.insert(key, &page(key)).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..20_000u64 {
                    let key = (round * 7919 + thread * 250) % 1000;
                    if round % 50 == 0 {
                        let _ = cache.insert(key, &page(key));
                        cache.take_as_the_kernel((key + 500) % 1000);
                    }
                    // A miss is possible while another thread gives the entry its page.
                    hits(cache, key..key + 1);
                }
            });
        }
    });
    report(&cache.stats());
    assert!(cache.stats().restored > 1000);
}

/// Random accesses to more entries than can be kept, of which a tenth costs fifty times as much to make
/// again: hits of the dear, of the others, and the cost of all misses.
fn dear_and_cheap(told: bool) -> (f64, f64, u64) {
    let entries = 4096;
    let cache = Cache::new(Options {
        compressed_bytes: 1 << 20,
        ..Options::new(512 << 10, Backing::DontNeed)
    })
    .unwrap();
    let mut random = 0x1234_5678_9abc_def1u64;
    let mut counts = [[0u64; 2]; 2];
    let mut lost = 0;
    for access in 0..24_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let key = random % entries;
        let dear = key.is_multiple_of(10);
        let cost = if dear { 50 } else { 1 };
        let hit = hits(&cache, key..key + 1) == 1;
        if !hit {
            let cost = if told { cost } else { 1 };
            cache.insert_with_cost(key, &page(key), cost).unwrap();
        }
        if access >= 8_000 {
            counts[usize::from(dear)][usize::from(hit)] += 1;
            lost += if hit { 0 } else { u64::from(cost) };
        }
    }
    let rate = |[misses, hits]: [u64; 2]| hits as f64 / (hits + misses) as f64;
    report(&cache.stats());
    (rate(counts[1]), rate(counts[0]), lost)
}

#[test]
fn what_is_dear_to_make_again_stays_and_what_is_cheap_goes() {
    let (dear, cheap, lost) = dear_and_cheap(true);
    let (dear_untold, cheap_untold, lost_untold) = dear_and_cheap(false);
    println!("told: dear {dear:.3}, cheap {cheap:.3}, cost of misses {lost}");
    println!("not told: dear {dear_untold:.3}, cheap {cheap_untold:.3}, {lost_untold}");
    assert!(dear > 0.95 && cheap < dear - 0.3 && cheap > 0.05);
    assert!((dear_untold - cheap_untold).abs() < 0.1);
    assert!(lost * 2 < lost_untold);
}

#[test]
fn a_cost_stays_with_its_entry_through_the_tier() {
    let cache = Cache::new(Options {
        compressed_bytes: 256 << 10,
        ..Options::new(256 << 10, Backing::Anonymous)
    })
    .unwrap();
    for key in 0..20 {
        cache.insert_with_cost(key, &page(key), 10_000).unwrap();
    }
    // Told while it is in a page, in the tier, and told nothing any more.
    assert!(!cache.set_cost(20, 5));
    for round in 0..5 {
        for key in 1000..3000 {
            cache.insert(key + round * 2000, &page(key)).unwrap();
        }
        assert_eq!(hits(&cache, 0..20), 20, "round {round}");
    }
    for key in 1000..1200 {
        cache.insert(key, &page(key)).unwrap();
    }
    assert!(cache.stats().compressed_entries > 64);
    assert!((0..10).all(|key| cache.set_cost(key, 0)));
    // They come back to pages, and go from there once more.
    assert_eq!(hits(&cache, 0..20), 20);
    for key in 1000..9000 {
        cache.insert(key, &page(key)).unwrap();
    }
    assert_eq!((hits(&cache, 0..10), hits(&cache, 10..20)), (0, 10));
}
