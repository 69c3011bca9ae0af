//! From a key to its place in a page of small entries, and from a page to what is in it.
//!
//! Buckets of eight words, a cache line each; a key lies in one of two buckets, as in `index.rs`. A
//! word names a place; the key itself stands there.
//!
//! ```text
//!  word:  63 ─ 41 part of the hash, odd │ 40 ─ 32 place in the page, in granules │ 31 ─ 0 page number and one
//! ```
//!
//! The words of a page form a list, through links beside the words: a page that the kernel has taken
//! does not say any more what it held, and its words must be cleared all the same.
//!
//! * X1 and X3 of `index.rs` hold here, too. At most one word leads to an entry of a key that is
//!   still there.
//! * Y1 Every word is in the list of its page. Lists are read and written under the room lock.
//!
//! There are 8/5 words for each entry that the cache is made for: 26 bytes an entry, with links.

use crate::error::Error;
use crate::index::{Bucket, WORDS, mix, random_seed};
use crate::region::{Table, Zeroed};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

/// Entries for each bucket of eight words. With six, one in a thousand finds both its buckets full.
const ENTRIES_A_BUCKET: usize = 5;

const TAG_SHIFT: u32 = 41;
const GRANULE_SHIFT: u32 = 32;
const GRANULE_MASK: u64 = 0x1ff;

/// Neighbours in the list of a page: number of a word, and one; 0 is none.
struct Link {
    before: AtomicU32,
    after: AtomicU32,
}

// SAFETY: integers.
unsafe impl Zeroed for Link {}

/// Where small entries are.
pub(crate) struct SmallIndex {
    buckets: Table<Bucket>,
    links: Table<Link>,
    seed: u64,
}

/// Where the word of a key may lie.
#[derive(Clone, Copy)]
pub(crate) struct Candidates {
    pub buckets: [usize; 2],
    tag: u64,
}

/// A word that is not empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub u64);

impl Word {
    pub fn slot(self) -> u32 {
        self.0 as u32 - 1
    }

    /// Where in the page, in granules.
    pub fn granule(self) -> u32 {
        (self.0 >> GRANULE_SHIFT & GRANULE_MASK) as u32
    }

    /// The same key's word for another place.
    pub fn moved(self, slot: u32, granule: u32) -> Word {
        Word::new(self.0 >> TAG_SHIFT, slot, granule)
    }

    fn new(tag: u64, slot: u32, granule: u32) -> Word {
        debug_assert!(u64::from(granule) <= GRANULE_MASK);
        let place = u64::from(granule) << GRANULE_SHIFT | (u64::from(slot) + 1);
        Word(tag << TAG_SHIFT | place)
    }
}

impl Candidates {
    /// The key's word for a place.
    pub fn word(self, slot: u32, granule: u32) -> Word {
        Word::new(self.tag, slot, granule)
    }

    /// Whether `word` may be the key's. An empty one never is: tags are odd.
    #[inline]
    pub fn fit(self, word: u64) -> bool {
        word >> TAG_SHIFT == self.tag
    }

    /// The numbers of the words.
    pub fn cells(self) -> impl Iterator<Item = u32> {
        let buckets = self.buckets.into_iter();
        buckets.flat_map(|bucket| (0..WORDS).map(move |word| (bucket * WORDS + word) as u32))
    }
}

impl SmallIndex {
    /// An index for about `entries` entries.
    pub fn new(entries: usize) -> Result<SmallIndex, Error> {
        // The number of a word and one must fit into 32 bits.
        let most = (u32::MAX as usize / WORDS - 1) * ENTRIES_A_BUCKET;
        if entries > most {
            return Err(Error::SmallEntries { entries, most });
        }
        let buckets = entries.div_ceil(ENTRIES_A_BUCKET);
        Ok(SmallIndex {
            buckets: Table::new(buckets)?,
            links: Table::new(buckets * WORDS)?,
            seed: random_seed(),
        })
    }

    /// Whether the cache was made for none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Where the word of `key` may lie. The index is not empty.
    #[inline]
    pub fn candidates(&self, key: u64) -> Candidates {
        let hash = mix(key ^ self.seed);
        let buckets = self.buckets.len() as u64;
        let other = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let scale = |hash: u64| (((hash >> 32) * buckets) >> 32) as usize;
        Candidates {
            buckets: [scale(hash), scale(other)],
            tag: hash & (u64::MAX >> TAG_SHIFT) | 1,
        }
    }

    /// The words of a bucket.
    #[inline]
    pub fn bucket(&self, number: usize) -> &[AtomicU64; WORDS] {
        &self.buckets[number].0
    }

    fn cell(&self, cell: u32) -> &AtomicU64 {
        &self.buckets[cell as usize / WORDS].0[cell as usize % WORDS]
    }

    /// The word with a number, `None` if it is empty. Under the room lock.
    pub fn word(&self, cell: u32) -> Option<Word> {
        let word = self.cell(cell).load(Relaxed);
        (word != 0).then_some(Word(word))
    }

    /// An empty word for a key. Under the room lock.
    pub fn free_cell(&self, candidates: Candidates) -> Option<u32> {
        let empty = |bucket: usize| {
            let words = self.bucket(bucket).iter();
            words.filter(|word| word.load(Relaxed) == 0).count()
        };
        let [first, second] = candidates.buckets;
        let bucket = match empty(first) {
            many if many > WORDS / 2 || many >= empty(second) => first,
            _ => second,
        };
        let word = self.bucket(bucket).iter();
        let free = word.into_iter().position(|word| word.load(Relaxed) == 0)?;
        Some((bucket * WORDS + free) as u32)
    }

    /// Writes a word and puts it at the head of its page's list, which begins at `head` (as in
    /// [`Link`]). The new head. What the word leads to must be written. Under the room lock.
    pub fn link(&self, cell: u32, word: Word, head: u32) -> u32 {
        let link = &self.links[cell as usize];
        link.before.store(0, Relaxed);
        link.after.store(head, Relaxed);
        if head != 0 {
            let next = &self.links[head as usize - 1];
            next.before.store(cell + 1, Relaxed);
        }
        self.cell(cell).store(word.0, Release);
        cell + 1
    }

    /// Takes a word out of its page's list, and returns the head. The word itself stays as it is.
    /// Under the room lock.
    pub fn unlink(&self, cell: u32, head: u32) -> u32 {
        let link = &self.links[cell as usize];
        let (before, after) = (link.before.load(Relaxed), link.after.load(Relaxed));
        if after != 0 {
            let next = &self.links[after as usize - 1];
            next.before.store(before, Relaxed);
        }
        if before == 0 {
            debug_assert_eq!(head, cell + 1);
            return after;
        }
        let previous = &self.links[before as usize - 1];
        previous.after.store(after, Relaxed);
        head
    }

    /// Empties a word. Under the room lock.
    pub fn clear(&self, cell: u32) {
        self.cell(cell).store(0, Release);
    }

    /// What follows a word in the list of its page, as in [`Link`]. Under the room lock.
    pub fn after(&self, cell: u32) -> u32 {
        self.links[cell as usize].after.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_where() {
        let index = SmallIndex::new(1000).unwrap();
        let candidates = index.candidates(77);
        let word = candidates.word(u32::MAX - 2, 510);
        assert_eq!((word.slot(), word.granule()), (u32::MAX - 2, 510));
        assert!(candidates.fit(word.0) && !candidates.fit(0));
        let moved = word.moved(0, 0);
        assert_eq!((moved.slot(), moved.granule()), (0, 0));
        assert!(candidates.fit(moved.0));
    }

    #[test]
    fn as_many_entries_as_it_is_made_for_have_a_word() {
        let entries = 200_000;
        let index = SmallIndex::new(entries).unwrap();
        let mut refused = 0;
        for key in 0..entries as u64 {
            let candidates = index.candidates(key);
            match index.free_cell(candidates) {
                Some(cell) => {
                    index.link(cell, candidates.word(0, 0), 0);
                }
                None => refused += 1,
            }
        }
        assert!(refused < entries / 10_000, "{refused}");
    }

    #[test]
    fn a_list_is_what_was_linked_and_not_unlinked() {
        let index = SmallIndex::new(100).unwrap();
        let mut head = 0;
        for cell in 0..10 {
            head = index.link(cell, Word(1), head);
        }
        for cell in [9, 0, 5] {
            head = index.unlink(cell, head);
        }
        let mut list = Vec::new();
        while head != 0 {
            list.push(head - 1);
            head = index.after(head - 1);
        }
        assert_eq!(list, [8, 7, 6, 4, 3, 2, 1]);
    }
}
