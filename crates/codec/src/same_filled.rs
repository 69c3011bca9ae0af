//! Pages that are one 64-bit word, repeated: zero pages above all.
//!
//! Such a page needs no storage; a marker with the word is enough. The test runs before every
//! compression, on pages of which nearly all are something else, so what counts is how soon it
//! gives up:
//!
//! ```text
//!  word 0  1  2 …                                              511
//!  ┌──────┬──────┬──────────────────────────────────────────┬──────┐
//!  │  ①   │      │  ② 8 words a step, one branch a step     │  ①   │
//!  └──────┴──────┴──────────────────────────────────────────┴──────┘
//!  ① first word ≠ last word: most pages end here, two cache lines read
//! ```
//!
//! Reading the last word first is what the discussion of seed 003 asks for: pages that are
//! filled but for the last word (or the first) are answered without a pass over the page. Those
//! that differ elsewhere cost at most one pass, at the speed of vector compares.
//!
//! Implements RFC-0219, "Zero page scanning", and the same-filled pages of zswap (seed 003).
//! A word that repeats with another period than 8 bytes is not looked for; codecs find it.
#![forbid(unsafe_code)]

use crate::{PAGE_SIZE, Page};

/// Bytes that are compared between two branches: one cache line.
const STEP_BYTES: usize = 64;

/// The word that fills the whole page, in the machine's byte order, if there is one.
#[inline]
pub fn same_filled(page: &Page) -> Option<u64> {
    let first = word(page, 0);
    if word(page, PAGE_SIZE - 8) != first {
        return None;
    }
    let (steps, _) = page.as_chunks::<STEP_BYTES>();
    for step in steps {
        let (words, _) = step.as_chunks::<8>();
        let difference = words
            .iter()
            .fold(0, |acc, word| acc | (u64::from_ne_bytes(*word) ^ first));
        if difference != 0 {
            return None;
        }
    }
    Some(first)
}

/// Writes `word`, in the machine's byte order, over all of the page.
#[inline]
pub fn fill(page: &mut Page, word: u64) {
    let (words, _) = page.as_chunks_mut::<8>();
    words.fill(word.to_ne_bytes());
}

/// The word at byte `offset`.
#[inline]
fn word(page: &Page, offset: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[offset..offset + 8]);
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_makes_pages_that_same_filled_recognises() {
        for word in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef, 1 << 63] {
            let mut page = [0xa5; PAGE_SIZE];
            fill(&mut page, word);
            assert_eq!(same_filled(&page), Some(word));
        }
    }

    #[test]
    fn any_single_byte_that_differs_is_seen() {
        let mut page = [0; PAGE_SIZE];
        fill(&mut page, 0x1122_3344_5566_7788);
        // An odd step: every place within a word is tried under Miri, too.
        for position in (0..PAGE_SIZE).step_by(if cfg!(miri) { 71 } else { 1 }) {
            page[position] ^= 0x80;
            assert_eq!(same_filled(&page), None, "byte {position}");
            page[position] ^= 0x80;
        }
        assert!(same_filled(&page).is_some());
    }

    #[test]
    fn a_shorter_period_is_a_word_and_a_longer_one_is_not() {
        let mut page = [0; PAGE_SIZE];
        for (i, byte) in page.iter_mut().enumerate() {
            *byte = (i % 4) as u8;
        }
        assert_eq!(
            same_filled(&page),
            Some(u64::from_ne_bytes([0, 1, 2, 3, 0, 1, 2, 3]))
        );
        for (i, byte) in page.iter_mut().enumerate() {
            *byte = (i % 16) as u8;
        }
        assert_eq!(same_filled(&page), None);
    }
}
