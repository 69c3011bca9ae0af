//! Entries of less than a page: what the cache gives out is what was last written, whole.

use coldpress_cache::{Backing, Cache, Error, MOST_SMALL_BYTES, Options, PAGE_BYTES};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

fn cache(pages: usize, backing: Backing, small_entries: usize) -> Cache {
    Cache::new(Options {
        small_entries,
        ..Options::new(pages * PAGE_BYTES, backing)
    })
    .unwrap()
}

/// Bytes that say whose they are.
fn content(key: u64, writing: u64, length: usize) -> Vec<u8> {
    let word = (key << 40 | writing).to_le_bytes();
    word.into_iter().cycle().take(length).collect()
}

fn get(cache: &Cache, key: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0x55; MOST_SMALL_BYTES];
    let length = cache.get_small(key, &mut bytes)?;
    bytes.truncate(length);
    Some(bytes)
}

#[test]
fn many_share_a_page() {
    let cache = cache(64, Backing::LazyFree, 4000);
    // 64 bytes, 10 of header, and 6 to the next multiple of 8: 51 a page.
    for key in 0..3000 {
        cache.insert_small(key, &content(key, 1, 64)).unwrap();
    }
    let stats = cache.stats();
    assert_eq!((stats.small_entries, stats.small_pages), (3000, 59));
    assert_eq!(stats.small_displaced, 0);
    for key in 0..3000 {
        assert_eq!(get(&cache, key).unwrap(), content(key, 1, 64));
    }
    assert_eq!(get(&cache, 3000), None);
    // A page of the same key is another entry.
    assert!(!cache.get(5, &mut [0]));
    cache.insert(5, b"page").unwrap();
    assert!(cache.remove(5));
    assert!(get(&cache, 5).is_some());
}

#[test]
fn every_length_comes_back_and_only_what_fits_is_copied() {
    let cache = cache(1024, Backing::LazyFree, 4000);
    for length in 1..=MOST_SMALL_BYTES {
        cache
            .insert_small(7, &content(7, length as u64, length))
            .unwrap();
        assert_eq!(get(&cache, 7).unwrap(), content(7, length as u64, length));
    }
    let mut few = [9; 10];
    assert_eq!(cache.get_small(7, &mut few[2..8]), Some(MOST_SMALL_BYTES));
    assert_eq!(few[2..8], content(7, MOST_SMALL_BYTES as u64, 6));
    assert!(few[..2] == [9, 9] && few[8..] == [9, 9]);
    // All but the last were given up, and their pages came back.
    let stats = cache.stats();
    assert_eq!(stats.small_entries, 1);
    assert!(stats.small_pages <= 2, "{stats:?}");
}

#[test]
fn bad_lengths_and_caches_are_refused() {
    let cache = cache(64, Backing::LazyFree, 10);
    for bytes in [0, MOST_SMALL_BYTES + 1, PAGE_BYTES] {
        let error = cache.insert_small(1, &vec![1; bytes]).unwrap_err();
        assert!(matches!(error, Error::SmallBytes { bytes: b } if b == bytes));
        assert!(error.to_string().contains("1 to 2030"), "{error}");
    }
    assert_eq!(cache.stats().small_entries, 0);
    let none = self::cache(64, Backing::LazyFree, 0);
    let error = none.insert_small(1, b"x").unwrap_err();
    assert!(error.to_string().contains("small_entries"), "{error}");
    assert!(none.get_small(1, &mut [0]).is_none() && !none.remove_small(1));
    assert!(!none.take_small_as_the_kernel(1));
    let many = Cache::new(Options {
        small_entries: usize::MAX,
        ..Options::new(1 << 20, Backing::LazyFree)
    });
    assert!(matches!(many, Err(Error::SmallEntries { .. })));
    let stub = Cache::new(Options::stub()).unwrap();
    stub.insert_small(1, b"x").unwrap();
    assert_eq!(get(&stub, 1), None);
}

#[test]
fn a_page_that_the_kernel_took_loses_all_its_entries_and_no_other() {
    let cache = cache(64, Backing::LazyFree, 1000);
    for key in 0..505 {
        cache.insert_small(key, &content(key, 1, 64)).unwrap();
    }
    // 51 a page: 100 is in the second.
    assert!(cache.take_small_as_the_kernel(100));
    for key in 0..505 {
        let there = !(51..102).contains(&key);
        let expected = there.then(|| content(key, 1, 64));
        assert_eq!(get(&cache, key), expected, "{key}");
    }
    let stats = cache.stats();
    assert_eq!((stats.small_entries, stats.small_pages), (454, 9));
    assert_eq!(stats.resets, 1, "one page, whoever asks afterwards");
    // The page being filled, too, which has room left, and what is written next is not lost with it.
    assert!(cache.take_small_as_the_kernel(504));
    cache.insert_small(1000, b"next").unwrap();
    assert_eq!(get(&cache, 504), None);
    assert_eq!(get(&cache, 1000).unwrap(), b"next");
}

#[test]
fn a_full_index_gives_up_others_and_stays_right() {
    // Four times as many as the index is made for, and as it has words for two and a half.
    let cache = cache(256, Backing::Anonymous, 1000);
    for key in 0..4000 {
        cache.insert_small(key, &content(key, 2, 30)).unwrap();
    }
    let stats = cache.stats();
    assert_eq!(stats.small_entries + stats.small_displaced, 4000);
    assert!((1000..=1600).contains(&stats.small_entries), "{stats:?}");
    let found = (0..4000).filter(|&key| match get(&cache, key) {
        Some(bytes) => {
            assert_eq!(bytes, content(key, 2, 30));
            true
        }
        None => false,
    });
    assert_eq!(found.count() as u64, stats.small_entries);
}

#[test]
fn overwriting_uses_no_more_pages_than_twice_what_is_alive() {
    // Every third entry for good, the others again and again.
    let cache = cache(64, Backing::LazyFree, 2000);
    for round in 0..200 {
        for key in 0..600 {
            if round == 0 || key % 3 != 0 {
                cache.insert_small(key, &content(key, round, 64)).unwrap();
            }
        }
    }
    for key in 0..600 {
        let round = if key % 3 == 0 { 0 } else { 199 };
        assert_eq!(get(&cache, key).unwrap(), content(key, round, 64));
    }
    let stats = cache.stats();
    assert_eq!((stats.small_entries, stats.evicted), (600, 0));
    assert!(stats.small_moved > 0);
    let alive = 600u64.div_ceil(51);
    assert!(stats.small_pages <= 2 * alive + 2, "{stats:?}");
}

#[test]
fn hot_pages_of_small_entries_stay_while_cold_ones_go() {
    let cache = cache(64, Backing::Anonymous, 10_000);
    for key in 0..51 * 64 {
        cache.insert_small(key, &content(key, 1, 64)).unwrap();
    }
    for key in 0..51 * 8 {
        assert!(get(&cache, key).is_some());
    }
    // 16 pages' worth more.
    for key in 10_000..10_000 + 51 * 16 {
        cache.insert_small(key, &content(key, 1, 64)).unwrap();
    }
    assert!(cache.stats().evicted >= 16);
    assert!((0..51 * 8).all(|key| get(&cache, key).is_some()));
    assert!((51 * 8..51 * 64).any(|key| get(&cache, key).is_none()));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, usize),
    Remove(u64),
    Get(u64),
    Take(u64),
    Page(u64),
    RemovePage(u64),
    Shrink,
}

fn step(keys: u64, loses: bool) -> impl Strategy<Value = Step> {
    let key = 0..keys;
    let lossy = u32::from(loses);
    let length = prop_oneof![4 => 1usize..100, 1 => 1usize..=MOST_SMALL_BYTES];
    prop_oneof![
        16 => (key.clone(), length).prop_map(|(k, l)| Step::Insert(k, l)),
        3 => key.clone().prop_map(Step::Remove),
        6 => key.clone().prop_map(Step::Get),
        2 * lossy => key.clone().prop_map(Step::Take),
        2 => (0u64..40).prop_map(Step::Page),
        2 => (0u64..40).prop_map(Step::RemovePage),
        lossy => Just(Step::Shrink),
    ]
}

fn check(backing: Backing, pages: usize, keys: u64, loses: bool, steps: Vec<Step>) {
    let cache = cache(pages, backing, if loses { 100 } else { 2000 });
    let mut model: HashMap<u64, Vec<u8>> = HashMap::new();
    let look = |model: &mut HashMap<u64, Vec<u8>>, key: u64| match get(&cache, key) {
        None => {
            assert!(loses || !model.contains_key(&key), "{key} was lost");
            model.remove(&key);
        }
        got => assert_eq!(got.as_ref(), model.get(&key), "{key}"),
    };
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Insert(key, length) => {
                let bytes = content(key, number as u64, length);
                cache.insert_small(key, &bytes).unwrap();
                model.insert(key, bytes);
                assert_eq!(get(&cache, key).as_ref(), model.get(&key));
            }
            Step::Remove(key) => {
                let removed = cache.remove_small(key);
                assert!(loses || removed == model.contains_key(&key));
                model.remove(&key);
            }
            Step::Get(key) => look(&mut model, key),
            Step::Take(key) => {
                cache.take_small_as_the_kernel(key);
            }
            Step::Page(key) => cache.insert(key, &content(key, 0, PAGE_BYTES)).unwrap(),
            Step::RemovePage(key) => {
                let right = |page: &[u8; PAGE_BYTES]| page[..] == content(key, 0, PAGE_BYTES);
                assert_ne!(cache.with(key, right), Some(false));
                cache.remove(key);
            }
            Step::Shrink => {
                cache.shrink(4 * PAGE_BYTES as u64);
            }
        }
    }
    for key in 0..keys {
        look(&mut model, key);
    }
    let stats = cache.stats();
    assert_eq!(stats.small_entries, model.len() as u64);
    assert_eq!(stats.entries + stats.free_pages, stats.pages);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_room_for_all_nothing_is_lost(
        steps in prop::collection::vec(step(60, false), 1..800),
        backing in prop::sample::select(vec![Backing::LazyFree, Backing::DontNeed, Backing::Disk]),
    ) {
        check(backing, 512, 60, false, steps);
    }

    #[test]
    fn what_is_lost_does_not_come_back_wrong(
        steps in prop::collection::vec(step(300, true), 1..800),
        backing in prop::sample::select(vec![
            Backing::LazyFree, Backing::Anonymous, Backing::DontNeed,
        ]),
    ) {
        check(backing, 32, 300, true, steps);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound
    }
}

/// What a storm is made of.
struct Storm {
    backing: Backing,
    pages: usize,
    keys: u64,
    /// Multiples of 8 bytes, from and to.
    lengths: (u64, u64),
    /// Of twenty steps of a writer, how many insert a page.
    inserted_pages: u64,
}

/// Whole, and no older than what was read before: each key has one writer, which counts.
fn storm(storm: Storm) {
    let Storm {
        backing,
        pages,
        keys,
        lengths,
        inserted_pages,
    } = storm;
    let cache = Cache::new(Options {
        lazyfree_chunks: if backing == Backing::LazyFree { 2 } else { 0 },
        dont_need_chunks: if backing == Backing::DontNeed { 2 } else { 0 },
        small_entries: 500,
        ..Options::new(pages * PAGE_BYTES, backing)
    })
    .unwrap();
    let stop = AtomicBool::new(false);
    let (whole, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (cache, stop) = (&cache, &stop);
            scope.spawn(move || {
                let mut random = Random(writer + 1);
                let mut writing = 0;
                while !stop.load(Relaxed) {
                    let key = random.below(keys / 2) * 2 + writer;
                    writing += 1;
                    match random.below(20) {
                        0 => drop(cache.remove_small(key)),
                        1 => drop(cache.take_small_as_the_kernel(key)),
                        n if n < 2 + inserted_pages => {
                            let page = content(key, writing, PAGE_BYTES);
                            cache.insert(key, &page).unwrap_or_default();
                        }
                        _ => {
                            let (from, to) = lengths;
                            let length = 8 * (from + random.below(to - from + 1));
                            let bytes = content(key, writing, length as usize);
                            cache.insert_small(key, &bytes).unwrap();
                        }
                    }
                }
            });
        }
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (cache, whole, wrong) = (&cache, &whole, &wrong);
                scope.spawn(move || {
                    let mut random = Random(77 + reader);
                    let mut newest = vec![0; keys as usize];
                    let mut bytes = [0; MOST_SMALL_BYTES];
                    for _ in 0..2_000_000 {
                        let key = random.below(keys);
                        let Some(length) = cache.get_small(key, &mut bytes) else {
                            continue;
                        };
                        let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                        let writing = word & 0xff_ffff_ffff;
                        let right = word >> 40 == key
                            && writing >= newest[key as usize]
                            && bytes[..length]
                                .chunks_exact(8)
                                .all(|chunk| *chunk == word.to_le_bytes());
                        newest[key as usize] = writing;
                        if right { whole } else { wrong }.fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
        stop.store(true, Relaxed);
    });
    let stats = cache.stats();
    println!("{backing:?}: {whole:?} whole, {wrong:?} wrong; {stats:?}");
    assert_eq!(wrong.load(Relaxed), 0);
    assert!(whole.load(Relaxed) > 100_000, "the storm hardly hits");
    assert!(stats.resets > 0 && stats.evicted > 0);
}

/// Was seen to fail where the words of a page that goes are not cleared (S2).
#[test]
fn no_read_is_torn_stale_or_of_another_key() {
    for backing in [Backing::LazyFree, Backing::DontNeed] {
        storm(Storm {
            backing,
            pages: 32,
            keys: 400,
            lengths: (30, 31),
            inserted_pages: 5,
        });
    }
}

/// Few pages, which are used for others all the time, and entries that take long to copy. An insertion
/// was refused once, since readers had warmed all that was about to go.
///
/// Was seen to fail without the second look at the length (S3), and without the second look at the state.
#[test]
fn no_read_is_torn_while_pages_change_hands() {
    for backing in [Backing::LazyFree, Backing::DontNeed] {
        storm(Storm {
            backing,
            pages: 4,
            keys: 12,
            lengths: (250, 250),
            inserted_pages: 1,
        });
    }
}
