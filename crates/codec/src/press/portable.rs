//! The portable encoder and decoder. They say what the vector paths must do: those produce the
//! same bytes.
//!
//! For each block of 64 words:
//! ```text
//!  1  look up and enter every word in the table of words; on text also every second byte
//!     position in the table of four-byte strings, each word being looked up at two positions
//!  2  nearest of zero, previous, second previous (fewest literals; the first of equals);
//!     the better of the new distances, if its literals and the bytes of the distance are fewer
//!  3  a new distance is taken unless the distance in force gives the very word
//!  4  else the distance in force is used where it needs fewer literals than 2
//! ```
#![forbid(unsafe_code)]

use super::blocks::each_block;
use super::format::{BLOCK_WORDS, CODE_OF, CODES, Candidate, EXPANDED, LISTED, Mask, WORDS};
use super::state::{
    Effort, GOLDEN, MARGIN, Margined, Streams, TEXT_HASH_BITS, Tables, WORD_HASH_BITS,
};
use crate::{Corrupt, PAGE_SIZE, Page};

/// A literal costs one byte; a new distance must not cost more than this with its literals.
pub(crate) const MOST_FOR_A_DISTANCE: u32 = 5;

/// What is not to be chosen.
pub(crate) const NEVER: u32 = 64;

/// Bit n: byte n of the two words differs.
#[inline(always)]
fn differing(a: u64, b: u64) -> u8 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let x = a ^ b;
    let high = (((x & LOW) + LOW) | x) & !LOW;
    ((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

#[inline(always)]
pub(crate) fn word_hash(word: u64) -> usize {
    (((word >> 16) as u32).wrapping_mul(GOLDEN) >> (32 - WORD_HASH_BITS)) as usize
}

#[inline(always)]
pub(crate) fn text_hash(four_bytes: u32) -> usize {
    (four_bytes.wrapping_mul(GOLDEN) >> (32 - TEXT_HASH_BITS)) as usize
}

/// What stage 2 finds for a word.
#[derive(Copy, Clone, Default)]
struct Found {
    near: u8,
    near_mask: u8,
    /// 0: none worth it.
    distance: u16,
    distance_candidate: u8,
    distance_mask: u8,
}

/// Encodes the page, of whose bytes `not_zero` are not. `None`: more literals than `limit`.
pub(crate) fn encode(
    page: &Margined,
    tables: &mut Tables,
    streams: &mut Streams,
    not_zero: u32,
    limit: usize,
    effort: Effort,
) -> Option<()> {
    let mut distance_in_force = 8;
    each_block(
        tables,
        streams,
        not_zero,
        limit,
        effort,
        |tables, streams, block, text| {
            let mut found = [Found::default(); BLOCK_WORDS];
            for (k, found) in found.iter_mut().enumerate() {
                *found = find(page, tables, block + k, text);
            }
            for (k, found) in found.iter().enumerate() {
                emit(page, streams, block + k, found, &mut distance_in_force);
            }
        },
    )
}

/// Stages 1 and 2 for one word.
#[inline(always)]
fn find(page: &Margined, tables: &mut Tables, index: usize, text: bool) -> Found {
    let position = 8 * index;
    let word = page.word(position as isize);
    let entry = &mut tables.words[word_hash(word)];
    let earlier = core::mem::replace(entry, index as u16) as usize;

    let mut near = (Candidate::Zero as u8, differing(word, 0));
    for (candidate, back) in [(Candidate::Previous, 8), (Candidate::SecondPrevious, 16)] {
        let mask = differing(word, page.word(position as isize - back));
        if mask.count_ones() < near.1.count_ones() {
            near = (candidate as u8, mask);
        }
    }

    let words_back = index - earlier;
    let mut far = (NEVER, 0, 0, Candidate::WordDistance as u8);
    if (1..=255).contains(&words_back) {
        let mask = differing(word, page.word(8 * earlier as isize));
        far = (mask.count_ones() + 1, mask, 8 * words_back, far.3);
    }
    if text {
        let (cost, mask, distance) = find_text(page, tables, position, word);
        if cost < far.0 {
            far = (cost, mask, distance, Candidate::ByteDistance as u8);
        }
    }
    let worth_it = far.0 < near.1.count_ones() && far.0 <= MOST_FOR_A_DISTANCE;
    Found {
        near: near.0,
        near_mask: near.1,
        distance: if worth_it { far.2 as u16 } else { 0 },
        distance_candidate: far.3,
        distance_mask: far.1,
    }
}

/// The better of two byte distances: cost, mask, distance.
#[inline(always)]
fn find_text(page: &Margined, tables: &mut Tables, position: usize, word: u64) -> (u32, u8, usize) {
    let mut best = (NEVER, 0, 0);
    for shift in [0, 1] {
        let entry = tables.text[text_hash((word >> (8 * shift)) as u32)] as usize;
        // Where the word would begin, if the bytes found were those at `shift`.
        let Some(distance) = (position + shift).checked_sub(entry) else {
            continue;
        };
        if distance < 8 || distance > position {
            continue;
        }
        let mask = differing(word, page.word((position - distance) as isize));
        if mask.count_ones() + 2 < best.0 {
            best = (mask.count_ones() + 2, mask, distance);
        }
    }
    if position != 0 {
        for back in [6, 4, 2, 0] {
            let four = page.word((position - back) as isize) as u32;
            tables.text[text_hash(four)] = (position - back) as u16;
        }
    }
    best
}

/// Stages 3 and 4 for one word, and what they say.
#[inline(always)]
fn emit(
    page: &Margined,
    streams: &mut Streams,
    index: usize,
    found: &Found,
    distance_in_force: &mut usize,
) {
    let position = 8 * index;
    let word = page.word(position as isize);
    let continued = differing(
        word,
        page.word((position as isize) - *distance_in_force as isize),
    );
    let (candidate, mask) = if found.distance != 0 && continued != 0 {
        *distance_in_force = found.distance as usize;
        let wide = found.distance_candidate == Candidate::ByteDistance as u8;
        let named = if wide {
            found.distance
        } else {
            found.distance / 8
        };
        let at = streams.distance_bytes;
        streams.distances[at..at + 2].copy_from_slice(&named.to_le_bytes());
        streams.distance_bytes = at + 1 + usize::from(wide);
        (found.distance_candidate, found.distance_mask)
    } else if continued.count_ones() < found.near_mask.count_ones() {
        (Candidate::Continued as u8, continued)
    } else {
        (found.near, found.near_mask)
    };
    let code = CODE_OF[candidate as usize][mask as usize];
    let half = &mut streams.codes[index / 2];
    *half = if index.is_multiple_of(2) {
        code & 15
    } else {
        *half | (code & 15) << 4
    };
    streams.masks[streams.mask_count] = mask;
    streams.mask_count += usize::from(code & LISTED != 0);
    for (byte, value) in word.to_le_bytes().into_iter().enumerate() {
        streams.literals[streams.literal_count] = value;
        streams.literal_count += usize::from(mask >> byte & 1);
    }
}

/// The streams of a stored page.
pub(crate) struct Input<'a> {
    pub codes: &'a [u8; WORDS / 2],
    pub literals: &'a [u8],
    pub masks: &'a [u8],
    pub distances: &'a [u8],
    /// How many bytes behind the literals can be read.
    pub readable_behind: usize,
}

/// Decodes the streams into `page`.
pub(crate) fn decode(input: &Input, page: &mut Page) -> Result<(), Corrupt> {
    let (mut literals, mut masks, mut distances) = (input.literals, input.masks, input.distances);
    let mut distance_in_force = 8;
    for index in 0..WORDS {
        let code = input.codes[index / 2] >> (4 * (index % 2)) & 15;
        let (candidate, mask) = CODES[code as usize];
        let mask = match mask {
            Mask::Is(mask) => mask,
            Mask::Listed => *masks.split_off_first().ok_or(Corrupt)?,
        };
        let position = 8 * index;
        let distance = match candidate {
            Candidate::Zero => 0,
            Candidate::Previous => 8,
            Candidate::SecondPrevious => 16,
            Candidate::Continued => distance_in_force,
            Candidate::WordDistance => {
                distance_in_force = 8 * *distances.split_off_first().ok_or(Corrupt)? as usize;
                distance_in_force
            }
            Candidate::ByteDistance => {
                let (bytes, rest) = distances.split_first_chunk().ok_or(Corrupt)?;
                distances = rest;
                distance_in_force = u16::from_le_bytes(*bytes) as usize;
                distance_in_force
            }
        };
        let base = if distance == 0 && candidate == Candidate::Zero {
            0
        } else if distance < 8 || distance > position {
            return Err(Corrupt);
        } else {
            word_at(page, position - distance)
        };
        let word = base & !EXPANDED[mask as usize] | take_literals(&mut literals, mask)?;
        page[position..position + 8].copy_from_slice(&word.to_le_bytes());
    }
    let nothing_left = literals.is_empty() && masks.is_empty() && distances.is_empty();
    nothing_left.then_some(()).ok_or(Corrupt)
}

#[inline(always)]
fn word_at(page: &Page, position: usize) -> u64 {
    let bytes = page[position..].first_chunk().expect("inside the page");
    u64::from_le_bytes(*bytes)
}

/// The next literals, each at the byte for which `mask` has a bit.
#[inline(always)]
fn take_literals(literals: &mut &[u8], mask: u8) -> Result<u64, Corrupt> {
    let taken = literals
        .split_off(..mask.count_ones() as usize)
        .ok_or(Corrupt)?;
    if let Some(all) = taken.first_chunk() {
        return Ok(u64::from_le_bytes(*all));
    }
    let (mut word, mut bits) = (0, mask);
    for literal in taken {
        word |= u64::from(*literal) << (8 * bits.trailing_zeros());
        bits &= bits.wrapping_sub(1);
    }
    Ok(word)
}

const _: () = assert!(MARGIN >= 16 && PAGE_SIZE.is_multiple_of(8 * BLOCK_WORDS));
