//! Against a plain map: what the cache has is what was last written, and what it must have it has.

use coldpress_cache::{Backing, Cache, Options, PAGE_BYTES};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u8),
    Rewrite(u64, u8),
    Upgrade(u64, u8),
    Abandon(u64),
    Get(u64),
    Remove(u64),
    RemoveSeen(u64),
    Take(u64),
    Shrink(u64),
}

fn step(keys: u64) -> impl Strategy<Value = Step> {
    let key = 0..keys;
    prop_oneof![
        6 => (key.clone(), any::<u8>()).prop_map(|(k, b)| Step::Insert(k, b)),
        2 => (key.clone(), any::<u8>()).prop_map(|(k, b)| Step::Rewrite(k, b)),
        2 => (key.clone(), any::<u8>()).prop_map(|(k, b)| Step::Upgrade(k, b)),
        1 => key.clone().prop_map(Step::Abandon),
        8 => key.clone().prop_map(Step::Get),
        1 => key.clone().prop_map(Step::Remove),
        1 => key.clone().prop_map(Step::RemoveSeen),
        2 => key.prop_map(Step::Take),
        1 => (1u64..4).prop_map(Step::Shrink),
    ]
}

/// Content of a page by one byte, which is its last, too: 0 there is where a marker is needed most.
fn page(byte: u8) -> [u8; PAGE_BYTES] {
    let mut page = [byte; PAGE_BYTES];
    page[1] = !byte;
    page
}

fn check(backing: Backing, pages: usize, compressed_bytes: usize, keys: u64, steps: Vec<Step>) {
    let cache = Cache::new(Options {
        keep_hot: 128,
        compressed_bytes,
        ..Options::new(pages * PAGE_BYTES, backing)
    })
    .unwrap();
    // Whether the entry must be there: nothing was evicted, taken or removed.
    let mut model: HashMap<u64, u8> = HashMap::new();
    let loses = pages < keys as usize && compressed_bytes < 1 << 20;
    let lost_by_kernel = matches!(
        backing,
        Backing::LazyFree | Backing::Anonymous | Backing::DontNeed
    );
    let look = |model: &mut HashMap<u64, u8>, key: u64| {
        let got = cache.with(key, |bytes| *bytes);
        match (got, model.get(&key)) {
            (Some(bytes), Some(&byte)) => assert!(bytes == page(byte), "wrong bytes of {key}"),
            (Some(_), None) => panic!("{key} is there and should not be"),
            (None, Some(_)) => {
                assert!(loses, "{key} was lost");
                model.remove(&key);
            }
            (None, None) => {}
        }
    };
    for step in steps {
        match step {
            Step::Insert(key, byte) => {
                cache.insert(key, &page(byte)).unwrap();
                model.insert(key, byte);
                look(&mut model, key);
            }
            Step::Rewrite(key, byte) => {
                let mut lock = cache.write_lock(key).unwrap();
                let mut bytes = [1; PAGE_BYTES];
                lock.read(0, &mut bytes);
                if lock.is_fresh() {
                    assert_eq!(bytes, [0; PAGE_BYTES]);
                    assert!(loses || !model.contains_key(&key));
                } else {
                    assert!(bytes == page(model[&key]));
                }
                lock.write(0, &page(byte));
                lock.commit();
                model.insert(key, byte);
            }
            Step::Upgrade(key, byte) => {
                if let Some(lock) = cache.read_lock(key) {
                    let seen = model[&key];
                    let mut lock = lock.upgrade().unwrap();
                    assert!(!lock.is_fresh());
                    let mut last = [0];
                    lock.read(PAGE_BYTES - 1, &mut last);
                    assert_eq!(last[0], seen);
                    lock.write(0, &page(byte));
                    lock.commit();
                    model.insert(key, byte);
                }
            }
            Step::Abandon(key) => {
                drop(cache.write_lock(key).unwrap());
                model.remove(&key);
            }
            Step::Get(key) => look(&mut model, key),
            Step::Remove(key) => {
                let removed = cache.remove(key);
                assert!(loses || removed == model.contains_key(&key));
                model.remove(&key);
            }
            Step::RemoveSeen(key) => {
                let removed = cache.read_lock(key).is_some_and(|lock| lock.remove());
                assert!(loses || removed == model.contains_key(&key));
                model.remove(&key);
            }
            Step::Take(key) => {
                if lost_by_kernel && cache.take_as_the_kernel(key) {
                    model.remove(&key);
                }
            }
            Step::Shrink(pages) => {
                if loses || compressed_bytes > 0 {
                    cache.shrink(pages * PAGE_BYTES as u64);
                }
            }
        }
    }
    for key in 0..keys {
        look(&mut model, key);
    }
    let stats = cache.stats();
    assert_eq!(stats.entries + stats.free_pages, stats.pages);
    assert_eq!(stats.entries + stats.compressed_entries, model.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_with_room_for_all(
        steps in prop::collection::vec(step(90), 1..400),
        backing in prop::sample::select(vec![
            Backing::LazyFree, Backing::Anonymous, Backing::DontNeed, Backing::Disk,
        ]),
    ) {
        check(backing, 96, 0, 90, steps);
    }

    #[test]
    fn a_cache_that_evicts(
        steps in prop::collection::vec(step(200), 1..600),
        backing in prop::sample::select(vec![
            Backing::LazyFree, Backing::Anonymous, Backing::DontNeed, Backing::Disk,
        ]),
    ) {
        check(backing, 64, 0, 200, steps);
    }

    #[test]
    fn a_cache_whose_compressed_tier_has_room_for_all(
        steps in prop::collection::vec(step(200), 1..600),
        backing in prop::sample::select(vec![
            Backing::LazyFree, Backing::Anonymous, Backing::DontNeed, Backing::Disk,
        ]),
    ) {
        check(backing, 64, 1 << 20, 200, steps);
    }
}
