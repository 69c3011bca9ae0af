//! Classes of literals: bytes that are alike get a table of their own.
//!
//! | class | literals |
//! |---|---|
//! | 0 | of words with seven or eight of them: text, and words like no other |
//! | 1 | of words whose candidate is zero: small numbers |
//! | 2 | of other words, the lowest byte |
//! | 3 | of other words, the second byte |
//! | 4 | of other words, the upper six bytes |
//!
//! Code and mask of each word tell the classes of its literals, so nothing about them is stored.
#![deny(unsafe_code)]

use coldpress_arena::Zeroable;

use super::tables::{CLASSES, LISTING_CODES};
use crate::PAGE_SIZE;
use crate::press::format::{BLOCK_WORDS, CODES, Candidate, Mask, WORDS};

/// Literals of a word from this number on are of class 0.
pub(crate) const MANY: u32 = 7;

/// Room for the literals of a class, and for a vector behind them.
pub(crate) const CLASS_BYTES: usize = PAGE_SIZE + BLOCK_WORDS;

/// Room for the masks that one code lists, and for a vector behind them.
pub(crate) const LIST_BYTES: usize = WORDS + BLOCK_WORDS;

/// How many codes list masks.
pub(crate) const LISTS: usize = LISTING_CODES.end - LISTING_CODES.start;

/// The sequences of a page, beside its codes and distances.
#[repr(C, align(64))]
pub(crate) struct Sequences {
    pub literals: [[u8; CLASS_BYTES]; CLASSES],
    pub literal_counts: [usize; CLASSES],
    pub masks: [[u8; LIST_BYTES]; LISTS],
    pub mask_counts: [usize; LISTS],
}

// SAFETY: integers only; zero is a valid value, and there is nothing to drop.
#[allow(unsafe_code)]
unsafe impl Zeroable for Sequences {}

impl Sequences {
    pub(crate) fn clear(&mut self) {
        self.literal_counts = [0; CLASSES];
        self.mask_counts = [0; LISTS];
    }

    pub(crate) fn literals(&self, class: usize) -> &[u8] {
        &self.literals[class][..self.literal_counts[class]]
    }

    pub(crate) fn masks(&self, list: usize) -> &[u8] {
        &self.masks[list][..self.mask_counts[list]]
    }
}

/// The code of a word.
#[inline(always)]
pub(crate) fn code(codes: &[u8; WORDS / 2], word: usize) -> usize {
    (codes[word / 2] >> (4 * (word % 2)) & 15) as usize
}

/// The class of a literal of the word's byte `byte`.
#[inline(always)]
pub(crate) fn class(code: usize, mask: u8, byte: usize) -> usize {
    if mask.count_ones() >= MANY {
        0
    } else if matches!(CODES[code].0, Candidate::Zero) {
        1
    } else {
        2 + byte.min(2)
    }
}

/// Sorts the masks and the literals of the streams into sequences.
pub(crate) fn split(
    codes: &[u8; WORDS / 2],
    masks: &[u8],
    literals: &[u8],
    sequences: &mut Sequences,
) {
    sequences.clear();
    let (mut masks, mut literals) = (masks.iter(), literals.iter());
    for word in 0..WORDS {
        let code = code(codes, word);
        let mask = match CODES[code].1 {
            Mask::Is(mask) => mask,
            Mask::Listed => {
                let mask = masks.next().copied().unwrap_or(0);
                let list = code - LISTING_CODES.start;
                sequences.masks[list][sequences.mask_counts[list]] = mask;
                sequences.mask_counts[list] += 1;
                mask
            }
        };
        for byte in (0..8).filter(|byte| mask >> byte & 1 == 1) {
            let class = class(code, mask, byte);
            let literal = literals.next().copied().unwrap_or(0);
            sequences.literals[class][sequences.literal_counts[class]] = literal;
            sequences.literal_counts[class] += 1;
        }
    }
}

/// How many masks each code lists.
pub(crate) fn count_masks(codes: &[u8; WORDS / 2], sequences: &mut Sequences) {
    let mut counts = [0; 16];
    for word in 0..WORDS {
        counts[code(codes, word)] += 1;
    }
    sequences
        .mask_counts
        .copy_from_slice(&counts[LISTING_CODES]);
}

/// How many bytes the distances have.
pub(crate) fn distance_bytes(codes: &[u8; WORDS / 2]) -> usize {
    let bytes = |word| match CODES[code(codes, word)].0 {
        Candidate::WordDistance => 1,
        Candidate::ByteDistance => 2,
        _ => 0,
    };
    (0..WORDS).map(bytes).sum()
}

/// Puts the masks of the lists in the order of the words, and counts the literals of each
/// class. Gives how many masks there are.
pub(crate) fn merge_masks(
    codes: &[u8; WORDS / 2],
    sequences: &mut Sequences,
    masks: &mut [u8; WORDS],
) -> usize {
    let mut next = [0; LISTS];
    let mut count = 0;
    sequences.literal_counts = [0; CLASSES];
    for word in 0..WORDS {
        let code = code(codes, word);
        let mask = match CODES[code].1 {
            Mask::Is(mask) => mask,
            Mask::Listed => {
                let list = code - LISTING_CODES.start;
                let mask = sequences.masks[list][next[list]];
                next[list] += 1;
                masks[count] = mask;
                count += 1;
                mask
            }
        };
        for byte in (0..8).filter(|byte| mask >> byte & 1 == 1) {
            sequences.literal_counts[class(code, mask, byte)] += 1;
        }
    }
    count
}

/// Puts the literals of the classes in the order of the words. Gives how many there are.
pub(crate) fn merge_literals(
    codes: &[u8; WORDS / 2],
    mut masks: &[u8],
    sequences: &Sequences,
    literals: &mut [u8],
) -> usize {
    let mut next = [0; CLASSES];
    let mut count = 0;
    for word in 0..WORDS {
        let code = code(codes, word);
        let mask = match CODES[code].1 {
            Mask::Is(mask) => mask,
            Mask::Listed => masks.split_off_first().copied().unwrap_or(0),
        };
        for byte in (0..8).filter(|byte| mask >> byte & 1 == 1) {
            let class = class(code, mask, byte);
            literals[count] = sequences.literals[class][next[class]];
            next[class] += 1;
            count += 1;
        }
    }
    count
}
