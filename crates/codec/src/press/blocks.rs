//! What the encoders of all paths have in common: how they go through a page block by block, and
//! what has an order and is done one word at a time between the vectors.
//!
//! All of it is always inlined, and so compiled for the processor of the path that calls it.
//! (A closure has the features of the function that it stands in.)
//!
//! Invariants of the vector encoders' pointers (P2):
//! * V1 A position of the page is at least -64 and at most 4096 wherever 64 bytes are read:
//!   within `Margined`, which has 64 bytes before and after the page.
//! * V2 Streams are written at their ends, which are within the bounds of the portable encoder;
//!   the 64 bytes of a vector fit behind them.
//! * V3 The distance in force is at least 8, and at most the position of the word for which it
//!   was set (8 at the beginning, where the margin is read).

use core::hint::select_unpredictable;

use super::format::{BLOCK_WORDS, WORDS};
use super::state::{Effort, Lanes, MARGIN, Margined, Streams, Tables};

/// Encodes a page block by block: `encode_block` is given the block's first word, and whether the
/// page is taken for text. `None`: more literals than `limit`.
#[inline(always)]
pub(super) fn each_block(
    tables: &mut Tables,
    streams: &mut Streams,
    not_zero: u32,
    limit: usize,
    effort: Effort,
    mut encode_block: impl FnMut(&mut Tables, &mut Streams, usize, bool),
) -> Option<()> {
    streams.clear();
    tables.words.fill(0);
    let mut text = not_zero > effort.text_bytes;
    let mut text_cleared = false;
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        if text && !text_cleared {
            tables.text.fill(0);
            text_cleared = true;
        }
        encode_block(tables, streams, block, text);
        if streams.literal_count > limit {
            return None;
        }
        let words = (block + BLOCK_WORDS) as u32;
        text |= streams.literal_count as u32 * WORDS as u32 > words * effort.text_literals;
    }
    Some(())
}

/// The word `distance` bytes before `position` (V1, V3).
#[inline(always)]
pub(super) fn word_before(page: &Margined, position: usize, distance: usize) -> u64 {
    debug_assert!(distance <= MARGIN + position);
    debug_assert!(MARGIN + position - distance + 8 <= page.0.len());
    // In this order: the processor then has one register to add to, not two, in the load on which
    // `chain` waits. That is 2 % of compression.
    // SAFETY: V1, V3: inside the page or a margin.
    unsafe {
        let here = page.0.as_ptr().add(MARGIN + position);
        here.sub(distance).cast::<u64>().read_unaligned()
    }
}

/// The word at `position` (V1).
#[inline(always)]
pub(super) fn word(page: &Margined, position: usize) -> u64 {
    word_before(page, position, 0)
}

/// Stage 3: which of the words that are worth a new distance take it. Leaves the masks of the
/// words against those at the distance in force in `lanes.masks[6]`.
///
/// `words_at` takes the eight words at a position, and gives what makes their masks at a
/// distance.
#[inline(always)]
pub(super) fn follow<D: Fn(usize) -> u64>(
    page: &Margined,
    lanes: &mut Lanes,
    block: usize,
    worth_it: u64,
    distance_in_force: &mut usize,
    words_at: impl Fn(isize) -> D,
) -> u64 {
    let before = *distance_in_force;
    let taken = chain(page, lanes, block, worth_it, distance_in_force);
    let mut distance = before;
    for eight in 0..BLOCK_WORDS / 8 {
        let at = 8 * (block + 8 * eight) as isize;
        // V3: the first word for which the distance is used is among these or before, so that
        // they begin at most 56 bytes before the page.
        let differing = words_at(at);
        let mut masks = differing(distance);
        let mut left = (taken >> (8 * eight)) as u32 & 0xff;
        while left != 0 {
            let k = left.trailing_zeros();
            left &= left - 1;
            distance = lanes.distance[8 * eight + k as usize] as usize;
            let before = (1 << (8 * k)) - 1;
            masks = masks & before | differing(distance) & !before;
        }
        lanes.masks[6][eight] = masks;
    }
    taken
}

/// Goes from word to word of those that are worth a new distance: each takes it unless the
/// distance in force gives the very word.
#[inline(always)]
fn chain(
    page: &Margined,
    lanes: &Lanes,
    block: usize,
    worth_it: u64,
    distance_in_force: &mut usize,
) -> u64 {
    let (mut distance, mut left, mut taken) = (*distance_in_force, worth_it, 0);
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        left &= left - 1;
        let position = 8 * (block + k);
        // The chain on which everything waits: one load, one comparison, one selection.
        let differs = word(page, position) != word_before(page, position, distance);
        distance = select_unpredictable(differs, lanes.distance[k] as usize, distance);
        taken |= u64::from(differs) << k;
    }
    *distance_in_force = distance;
    taken
}

/// Writes the distances of the words that take a new one; those in `wide` are distances of bytes.
#[inline(always)]
pub(super) fn name_distances(lanes: &Lanes, streams: &mut Streams, taken: u64, wide: u64) {
    let (mut left, mut end) = (taken, streams.distance_bytes);
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        left &= left - 1;
        let is_wide = wide >> k & 1;
        let named = lanes.distance[k] >> (3 - 3 * is_wide);
        // V2
        streams.distances[end..end + 2].copy_from_slice(&named.to_le_bytes());
        end += 1 + is_wide as usize;
    }
    streams.distance_bytes = end;
}
