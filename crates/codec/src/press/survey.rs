//! What one pass over a page tells before any encoder starts, and the pages that end there.
//!
//! ```text
//!  random from the start? ─yes─▶ incompressible
//!  survey: copy in, and count ──▶ few runs?       ──yes──▶ runs.rs
//!                             ──▶ looks random?   ──yes──▶ incompressible
//!                             ──▶ else the encoder, which the counts tell whether it is text
//! ```
#![forbid(unsafe_code)]

use super::assemble::HIGH;
use super::runs::MOST_RUNS;
use crate::Page;

/// What is counted while the page is copied in.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Survey {
    /// Bytes that are not zero.
    pub not_zero: u32,
    /// Bytes above 127.
    pub high: u32,
    /// Words that are not the word before them (the first counts as such).
    pub changes: u32,
}

impl Survey {
    /// The portable count.
    pub(crate) fn of(page: &Page) -> Self {
        let (words, _) = page.as_chunks::<8>();
        let sum = |test: fn(&u8) -> bool| page.iter().map(|byte| u32::from(test(byte))).sum();
        Self {
            not_zero: sum(|byte| *byte != 0),
            high: sum(|byte| *byte > 127),
            changes: 1 + words
                .iter()
                .zip(&words[1..])
                .map(|(a, b)| u32::from(a != b))
                .sum::<u32>(),
        }
    }

    /// Whether the page is stored as runs.
    pub(crate) fn has_few_runs(&self) -> bool {
        self.changes as usize <= MOST_RUNS
    }

    /// Whether the page looks random: nearly no zero bytes, about half of the bytes above 127,
    /// and of 256 sampled bytes so many distinct values as random ones have (162 on average;
    /// encrypted and compressed data are like it). In 77,800 real pages no page that LZ4 could
    /// compress was taken for random.
    pub(crate) fn looks_random(&self, page: &Page) -> bool {
        self.not_zero >= 3900 && (1700..=2400).contains(&self.high) && distinct(page) > 140
    }
}

/// Whether the page looks random already at its beginning, and its samples say the same: for
/// pages that need not even be copied. Others are told by their first sixteen bytes, most of
/// them: one byte in them is zero.
#[inline]
pub(crate) fn is_random_from_the_start(page: &Page) -> bool {
    let (words, _) = page.as_chunks::<8>();
    let word = |index: usize| u64::from_le_bytes(words[index]);
    if has_zero_byte(word(0)) || has_zero_byte(word(1)) {
        return false;
    }
    let (mut high, mut zeros) = (0, 0);
    for index in 0..16 {
        high += (word(index) & HIGH).count_ones();
        zeros += u32::from(has_zero_byte(word(index)));
    }
    // Of 128 random bytes 64 ± 5.7 are high, and half a byte is zero.
    (40..=88).contains(&high) && zeros <= 4 && distinct(page) > 145
}

fn has_zero_byte(word: u64) -> bool {
    word.wrapping_sub(0x0101_0101_0101_0101) & !word & HIGH != 0
}

/// Distinct values among 256 bytes, eight from each 128.
fn distinct(page: &Page) -> u32 {
    // A byte for each value rather than a bit: no store waits for the one before.
    let mut seen = [0_u8; 256];
    for (i, part) in page.as_chunks::<128>().0.iter().enumerate() {
        for byte in &part[(i * 40) & 120..][..8] {
            seen[*byte as usize] = 1;
        }
    }
    seen.iter().map(|seen| u32::from(*seen)).sum()
}
