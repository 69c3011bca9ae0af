//! What goes, and what stays.

use coldpress_cache::{Backing, Cache, Options, PAGE_BYTES};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound
    }
}

fn cache(pages: usize, backing: Backing) -> Cache {
    Cache::new(Options::new(pages * PAGE_BYTES, backing)).unwrap()
}

/// Reads `key`, or fills it. Whether it was there.
fn fall_through(cache: &Cache, key: u64) -> bool {
    let mut word = [0; 8];
    if cache.get(key, &mut word) {
        assert_eq!(u64::from_ne_bytes(word), !key);
        return true;
    }
    cache.insert(key, &(!key).to_ne_bytes()).unwrap();
    false
}

/// A cache as the seed has it: when it is full, all of a random chunk goes.
struct RandomChunk {
    held: std::collections::HashMap<u64, usize>,
    chunks: Vec<Vec<u64>>,
    pages_a_chunk: usize,
    current: usize,
}

impl RandomChunk {
    fn new(pages: usize) -> RandomChunk {
        RandomChunk {
            held: Default::default(),
            chunks: vec![Vec::new(); 32],
            pages_a_chunk: pages / 32,
            current: 0,
        }
    }

    fn fall_through(&mut self, key: u64, random: &mut Random) -> bool {
        if self.held.contains_key(&key) {
            return true;
        }
        if self.chunks[self.current].len() == self.pages_a_chunk {
            let free = (0..32).find(|&c| self.chunks[c].len() < self.pages_a_chunk);
            self.current = free.unwrap_or_else(|| {
                let victim = random.below(32) as usize;
                for key in std::mem::take(&mut self.chunks[victim]) {
                    self.held.remove(&key);
                }
                victim
            });
        }
        self.chunks[self.current].push(key);
        self.held.insert(key, self.current);
        false
    }
}

/// Hit rate of the second half of `accesses` keys.
fn hit_rate(accesses: &[u64], mut access: impl FnMut(u64) -> bool) -> f64 {
    let (first, second) = accesses.split_at(accesses.len() / 2);
    first.iter().for_each(|&key| {
        access(key);
    });
    second.iter().filter(|&&key| access(key)).count() as f64 / second.len() as f64
}

#[test]
fn evicts_better_than_random_chunks() {
    let pages = 2048;
    let mut random = Random(5);
    // Half of all accesses go to 512 keys, the others to ten times the cache.
    let hot_and_cold: Vec<u64> = (0..200_000)
        .map(|_| {
            if random.below(2) == 0 {
                random.below(512)
            } else {
                1000 + random.below(20_480)
            }
        })
        .collect();
    // Twice the cache, again and again: where least recently used finds nothing.
    let cyclic: Vec<u64> = (0..100_000).map(|i| i % 4096).collect();
    // The hot keys change half way.
    let moving: Vec<u64> = hot_and_cold
        .iter()
        .enumerate()
        .map(|(i, &key)| {
            if key < 512 && i > 100_000 {
                key + 1_000_000
            } else {
                key
            }
        })
        .collect();
    for (name, accesses, margin) in [
        ("hot and cold", hot_and_cold, 0.05),
        ("cyclic", cyclic, 0.1),
        ("moving", moving, 0.05),
    ] {
        let ours = cache(pages, Backing::Anonymous);
        let mut theirs = RandomChunk::new(pages);
        let ours = hit_rate(&accesses, |key| fall_through(&ours, key));
        let theirs = hit_rate(&accesses, |key| theirs.fall_through(key, &mut random));
        println!("{name}: {ours:.3}, random chunks {theirs:.3}");
        assert!(ours > theirs + margin, "{name}: {ours:.3} {theirs:.3}");
    }
}

#[test]
fn what_the_kernel_took_goes_before_what_is_there() {
    let pages = 1024;
    let cache = Cache::new(Options {
        overcommit: true,
        ..Options::new(pages * PAGE_BYTES, Backing::LazyFree)
    })
    .unwrap();
    for key in 0..pages as u64 {
        cache.insert(key, &key.to_ne_bytes()).unwrap();
    }
    for key in 0..100 {
        assert!(cache.take_as_the_kernel(key * 10));
    }
    for key in 5000..5100 {
        cache.insert(key, &[1]).unwrap();
    }
    let stats = cache.stats();
    assert_eq!((stats.reused, stats.evicted), (100, 0));
    for key in 0..pages as u64 {
        assert_eq!(cache.get(key, &mut [0; 8]), key % 10 != 0 || key >= 1000);
    }
    cache.insert(9999, &[1]).unwrap();
    assert!(cache.stats().evicted > 0, "nothing was left to reuse");
}

#[test]
fn hot_pages_are_kept_from_the_kernel_and_no_more_than_a_part() {
    let pages = 1024;
    let cache = cache(pages, Backing::LazyFree);
    for key in 0..pages as u64 {
        cache.insert(key, &key.to_ne_bytes()).unwrap();
    }
    let sealed = cache.stats();
    assert_eq!(sealed.seals, 32);
    for key in 0..64 {
        for _ in 0..8 {
            assert!(cache.get(key, &mut [0]));
        }
    }
    assert_eq!(cache.stats().kept, 64);
    for key in 0..pages as u64 {
        for _ in 0..8 {
            cache.get(key, &mut [0]);
        }
    }
    let kept = cache.stats();
    assert_eq!(kept.kept, pages as u64 / 8);
    // The kernel marks pages in batches of 31 for each processor; one or two may be pending.
    let (dirty, slack) = (sealed.lazyfree_bytes - kept.lazyfree_bytes, 62);
    let pages = dirty / PAGE_BYTES as u64;
    assert!(pages.abs_diff(kept.kept) <= slack, "{pages} {}", kept.kept);
}

#[test]
fn dont_need_drops_what_is_resident_at_once() {
    let pages = 1024;
    let full = (pages * PAGE_BYTES) as u64;
    for (backing, drops) in [(Backing::DontNeed, true), (Backing::Anonymous, false)] {
        let cache = cache(pages, backing);
        for key in 0..pages as u64 {
            cache.insert(key, &[1]).unwrap();
        }
        assert_eq!(cache.stats().resident_bytes, full);
        for key in 0..256 {
            assert!(cache.remove(key));
        }
        let left = if drops { full / 4 * 3 } else { full };
        assert_eq!(cache.stats().resident_bytes, left, "{backing:?}");
    }
}

#[test]
fn shrinking_gives_memory_back_at_once_coldest_first() {
    for backing in [Backing::LazyFree, Backing::DontNeed, Backing::Anonymous] {
        let pages = 1024u64;
        let cache = cache(pages as usize, backing);
        for key in 0..pages {
            cache.insert(key, &[1]).unwrap();
        }
        for key in 0..100 {
            cache.get(key, &mut [0]);
        }
        let page = PAGE_BYTES as u64;
        let evicted = cache.shrink(512 * page);
        assert!((512 * page..600 * page).contains(&evicted), "{evicted}");
        assert_eq!(cache.stats().resident_bytes, pages * page - evicted);
        assert!((0..100).all(|key| cache.get(key, &mut [0])));
        assert_eq!(cache.shrink(u64::MAX), pages * page - evicted);
        assert_eq!(cache.stats().resident_bytes, 0);
        assert_eq!(cache.shrink(1), 0);
    }
}

#[test]
fn a_full_chunk_is_not_sealed_while_a_writer_holds_a_page() {
    // The kernel could take the first half of a page before the second is written.
    let cache = Cache::new(Options {
        lazyfree_chunks: 1,
        ..Options::new(16 * PAGE_BYTES, Backing::LazyFree)
    })
    .unwrap();
    let mut lock = cache.write_lock(0).unwrap();
    lock.write(0, &[1; PAGE_BYTES / 2]);
    for key in 1..16 {
        cache.insert(key, &[1]).unwrap();
    }
    let stats = cache.stats();
    assert_eq!(
        (stats.free_pages, stats.seals, stats.lazyfree_bytes),
        (0, 0, 0)
    );
    lock.write(PAGE_BYTES / 2, &[1; PAGE_BYTES / 2]);
    lock.commit();
    assert_eq!(cache.stats().seals, 1);
    // And what is written again is taken from the kernel's reach until much was.
    cache.write_lock(3).unwrap().commit();
    assert_eq!(cache.stats().seals, 1);
    cache.write_lock(4).unwrap().commit();
    assert_eq!(cache.stats().seals, 2);
}

#[test]
fn a_stub_keeps_nothing() {
    let cache = Cache::new(Options::stub()).unwrap();
    for key in 0..1000 {
        assert!(!fall_through(&cache, key));
        assert!(!fall_through(&cache, key));
    }
    assert_eq!(cache.stats().entries, 0);
}
