//! From a key to the page that holds it.
//!
//! Buckets of eight words, a cache line each. A word names a page and has half of the key's hash;
//! the whole key is in the page's record. A key lies in one of two buckets: in the first while that
//! has fewer than four, else in the emptier.
//!
//! ```text
//!  word:  63 ─ 32 half of the hash │ 31 ─ 0 page number and one, 0 is empty
//! ```
//!
//! * X1 Words are written under the room lock, and read by anyone at any time.
//! * X2 A key has at most one word.
//! * X3 A word that was found is a hint: what the record says counts.
//!
//! There are two and two thirds buckets' places a page or more, so that both buckets are full only
//! once in a lifetime; the caller then evicts one of the sixteen.

use crate::error::Error;
use crate::region::{Table, Zeroed};
use crate::slot::Slot;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

pub(crate) const WORDS: usize = 8;

#[repr(align(64))]
pub(crate) struct Bucket(pub [AtomicU64; WORDS]);

// SAFETY: integers.
unsafe impl Zeroed for Bucket {}

/// The index of a cache.
pub(crate) struct Index {
    buckets: Table<Bucket>,
    seed: u64,
}

/// Where a key may lie.
struct Place {
    buckets: [usize; 2],
    half: u64,
}

/// Of the process's own choice, so that no set of keys is bad for every cache.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A bit for each word of a bucket that fits, found without a branch.
#[inline]
pub(crate) fn matching(words: &[AtomicU64; WORDS], fits: impl Fn(u64) -> bool) -> u32 {
    let mut matching = 0;
    for (number, word) in words.iter().enumerate() {
        matching |= u32::from(fits(word.load(Relaxed))) << number;
    }
    matching
}

#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 32)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    x = (x ^ (x >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

impl Index {
    /// An index for `pages` pages.
    pub fn new(pages: usize) -> Result<Index, Error> {
        Ok(Index {
            buckets: Table::new(pages.div_ceil(3).next_power_of_two())?,
            seed: random_seed(),
        })
    }

    #[inline]
    fn place(&self, key: u64) -> Place {
        let hash = mix(key ^ self.seed);
        let mask = self.buckets.len() - 1;
        let first = hash as usize & mask;
        let second = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) as usize & mask;
        Place {
            buckets: [first, second],
            half: hash >> 32,
        }
    }

    /// The page of `key`, as far as that can be said without a lock. `slots` are the records.
    #[inline]
    pub fn find(&self, key: u64, slots: &[Slot]) -> Option<u32> {
        let place = self.place(key);
        for bucket in place.buckets {
            let words = &self.buckets[bucket].0;
            // All are compared before one is used: which one it is nobody could predict.
            let mut fit = matching(words, |word| word >> 32 == place.half);
            while fit != 0 {
                let word = words[fit.trailing_zeros() as usize].load(Acquire);
                fit &= fit - 1;
                if word >> 32 != place.half || word as u32 == 0 {
                    continue;
                }
                let slot = word as u32 - 1;
                if slots[slot as usize].key.load(Relaxed) == key {
                    return Some(slot);
                }
            }
        }
        None
    }

    /// Notes that `slot` holds `key`, which is in no word yet. False if there is no place. Under
    /// the room lock.
    pub fn insert(&self, key: u64, slot: u32) -> bool {
        let place = self.place(key);
        let [first, second] = place.buckets.map(|bucket| self.filled(bucket));
        let bucket = if first < 4 || first <= second { 0 } else { 1 };
        let bucket = &self.buckets[place.buckets[bucket]].0;
        let Some(free) = bucket.iter().find(|word| word.load(Relaxed) == 0) else {
            return false;
        };
        free.store(place.half << 32 | (u64::from(slot) + 1), Release);
        true
    }

    fn filled(&self, bucket: usize) -> usize {
        let words = self.buckets[bucket].0.iter();
        words.filter(|word| word.load(Relaxed) != 0).count()
    }

    /// Forgets that `slot` holds `key`. Under the room lock.
    pub fn remove(&self, key: u64, slot: u32) {
        let place = self.place(key);
        let word = place.half << 32 | (u64::from(slot) + 1);
        for bucket in place.buckets {
            for place in &self.buckets[bucket].0 {
                if place.load(Relaxed) == word {
                    place.store(0, Release);
                    return;
                }
            }
        }
    }

    /// The pages that lie where `key` would. Under the room lock.
    pub fn neighbours(&self, key: u64) -> impl Iterator<Item = u32> {
        let words = self.place(key).buckets.into_iter();
        words
            .flat_map(|bucket| &self.buckets[bucket].0)
            .filter_map(|word| (word.load(Relaxed) as u32).checked_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(pages: usize) -> (Index, Table<Slot>) {
        (Index::new(pages).unwrap(), Table::new(pages).unwrap())
    }

    #[test]
    fn a_full_cache_finds_every_key_and_forgets_what_is_removed() {
        let pages = 100_000u32;
        let (index, slots) = table(pages as usize);
        let key = |slot: u32| u64::from(slot) << 12;
        for slot in 0..pages {
            slots[slot as usize].key.store(key(slot), Relaxed);
            assert!(index.insert(key(slot), slot), "no place for page {slot}");
        }
        for slot in 0..pages {
            assert_eq!(index.find(key(slot), &slots), Some(slot));
        }
        assert_eq!(index.find(1, &slots), None);
        for slot in (0..pages).step_by(2) {
            index.remove(key(slot), slot);
        }
        for slot in 0..pages {
            let found = index.find(key(slot), &slots);
            assert_eq!(found, (slot % 2 == 1).then_some(slot));
        }
    }

    #[test]
    fn a_full_pair_of_buckets_refuses() {
        // One bucket, which is both of every key's.
        let (index, slots) = table(3);
        assert_eq!(index.buckets.len(), 1);
        for slot in 0..WORDS as u32 {
            assert!(index.insert(u64::from(slot) + 50, slot));
        }
        assert!(!index.insert(99, 0));
        assert_eq!(index.neighbours(99).count(), 2 * WORDS);
        drop(slots);
    }
}
