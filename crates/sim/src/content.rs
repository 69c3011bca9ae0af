//! What programs write into pages: cheap to make, of every form that an entry can have.

use crate::random::Random;
use coldpress_codec::{PAGE_SIZE, Page, same_filled};

/// Words that a marker can hold, and two that it cannot.
const WORDS: [u64; 6] = [
    1,
    0xAAAA_AAAA_AAAA_AAAA,
    0x8000_0000_0000_0020,
    !0x1234,
    0x9E37_79B9_7F4A_7C15,
    0x0123_4567_89AB_CDEF,
];

/// Words of a page.
const PAGE_WORDS: usize = PAGE_SIZE / 8;

/// Fills a page with content of some kind.
pub fn fill(random: &Random, page: &mut Page) {
    match random.below(16) {
        0..=2 => page.fill(0),
        3..=4 => same_filled::fill(page, random.pick(&WORDS)),
        5..=13 => {
            // So many words that differ, then one that repeats.
            let words = random.between(1, 340) as usize;
            same_filled::fill(page, random.next());
            noise(random, &mut page[..words * 8]);
        }
        _ => noise(random, page),
    }
}

/// Words that no codec makes smaller.
pub fn noise(random: &Random, bytes: &mut [u8]) {
    let mut state = random.next() | 1;
    for word in bytes.as_chunks_mut::<8>().0 {
        state = state.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1);
        *word = (state ^ state >> 29).to_ne_bytes();
    }
}

/// A write of a few words somewhere: their place in the page, and what is written.
pub fn few_words(random: &Random) -> (usize, Vec<u8>) {
    let words = random.between(1, 9) as usize;
    // Mostly near the head, so that the page stays compressible.
    let last = match random.one_in(4) {
        true => PAGE_WORDS,
        false => 256,
    };
    let at = random.below((last - words) as u64) as usize * 8;
    let bytes = (0..words).flat_map(|_| random.next().to_ne_bytes());
    (at, bytes.collect())
}
