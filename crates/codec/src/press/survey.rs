//! What one pass over a page tells before any encoder starts, and the pages that end there.
//!
//! ```text
//!  survey: copy in, and count ──▶ few runs?       ──yes──▶ runs.rs
//!                             ──▶ looks random?   ──yes──▶ incompressible
//!                             ──▶ else the encoder, which the counts tell whether it is text
//! ```
#![forbid(unsafe_code)]

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
