//! The search for matches, for LZ4 and LZO alike.
//!
//! The search is that of liblz4's fast compressor. Going through the page, it hashes the next
//! four bytes, looks where that hash was seen last, and takes the place if its four bytes are
//! the same. Where nothing is found it goes on in steps that grow by one every
//! `64 / acceleration` attempts, so that it hurries through what does not compress.
//!
//! ```text
//!           candidate                    position
//!  ─────────┬──────────┬─────────────────┬──────────┬──────────
//!           │ abcdefgh │  … anchor ──────│ abcdefgh │ x
//!  ─────────┴──────────┴─────────────────┴──────────┴──────────
//!               ▲        └── literals ──┘ └─ match ─┘
//!           table[hash(abcd)]            next anchor ┘
//! ```
//!
//! Invariants:
//! * S1 A position that is hashed, or at which four bytes are compared, is at most
//!   [`LAST_MATCH_START`], and a candidate is less than the position: 12 bytes can be read
//!   at either. Entries of the table are such positions, or 0.
//! * S2 What is told of a match is so: the bytes are equal, it has at least [`MIN_MATCH`] bytes,
//!   begins at [`LAST_MATCH_START`] and ends at [`MATCH_END_LIMIT`] at the latest, and
//!   neither anchor nor candidate lies behind it.

use coldpress_arena::Zeroable;

use crate::{PAGE_SIZE, Page};

/// Bits of a hash of four bytes.
///
/// A table of 2^12 positions is 8 KiB, which is cleared for each page: half of what liblz4
/// clears, and as many entries as a page has positions.
const HASH_BITS: u32 = 12;

/// The shortest match.
pub(crate) const MIN_MATCH: usize = 4;

/// Where the last match may begin: LZ4 leaves the last 12 bytes without one.
const LAST_MATCH_START: usize = PAGE_SIZE - 12;

/// Where matches end at the latest: LZ4 wants the last 5 bytes as literals.
const MATCH_END_LIMIT: usize = PAGE_SIZE - 5;

/// Attempts that find nothing before the step grows by one, as a power of two.
const SKIP_TRIGGER: u32 = 6;

/// liblz4 takes no greater acceleration either.
const GREATEST_ACCELERATION: i32 = 65_537;

/// Where in the page each hash of four bytes was seen last. It carries nothing from one page to
/// the next: it is cleared before each.
#[repr(C, align(64))]
pub struct Table {
    positions: [u16; 1 << HASH_BITS],
}

// SAFETY: plain integers; zero is a valid value, and there is nothing to drop.
unsafe impl Zeroable for Table {}

impl Table {
    /// A fresh table, for a `static` or a field.
    pub const fn new() -> Self {
        Self {
            positions: [0; 1 << HASH_BITS],
        }
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

/// A match, and the literals in front of it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Match {
    /// Where the literals begin: the end of the match before.
    pub anchor: usize,
    /// Where the match begins.
    pub position: usize,
    /// How far before its bytes are to be found.
    pub distance: usize,
    /// How many bytes match.
    pub length: usize,
}

/// Tells `take` of one match after the other, until it says `None`, and returns the end of
/// the last one: where the literals begin that end the page.
#[inline(always)]
pub(crate) fn search(
    table: &mut Table,
    page: &Page,
    acceleration: i32,
    mut take: impl FnMut(Match) -> Option<()>,
) -> Option<usize> {
    table.positions.fill(0);
    let attempts_at_start = (acceleration.clamp(1, GREATEST_ACCELERATION) as u32) << SKIP_TRIGGER;
    // Everything before was told.
    let mut anchor = 0;
    let mut position = 0;
    loop {
        // Find a match.
        let mut next = position + 1;
        let mut attempts = attempts_at_start;
        let mut step = 1;
        let mut next_hash = hash(page, next);
        let mut candidate;
        loop {
            let this_hash = next_hash;
            position = next;
            next = position + step;
            step = (attempts >> SKIP_TRIGGER) as usize;
            attempts += 1;
            if next > LAST_MATCH_START {
                return Some(anchor);
            }
            next_hash = hash(page, next);
            candidate = usize::from(table.positions[this_hash]);
            table.positions[this_hash] = position as u16;
            if four_bytes(page, candidate) == four_bytes(page, position) {
                break;
            }
        }
        // It may begin earlier.
        while position > anchor
            && candidate > 0
            && byte(page, position - 1) == byte(page, candidate - 1)
        {
            position -= 1;
            candidate -= 1;
        }
        // Tell it, and those that follow it without a literal between.
        loop {
            let length = match_length(page, candidate, position);
            take(Match {
                anchor,
                position,
                distance: position - candidate,
                length,
            })?;
            position += length;
            anchor = position;
            if position >= LAST_MATCH_START {
                return Some(anchor);
            }
            table.positions[hash(page, position - 2)] = (position - 2) as u16;
            let this_hash = hash(page, position);
            candidate = usize::from(table.positions[this_hash]);
            table.positions[this_hash] = position as u16;
            if four_bytes(page, candidate) != four_bytes(page, position) {
                break;
            }
        }
    }
}

/// The hash of the four bytes at `position`: an index of the table.
#[inline(always)]
fn hash(page: &Page, position: usize) -> usize {
    (four_bytes(page, position).wrapping_mul(2_654_435_761) >> (u32::BITS - HASH_BITS)) as usize
}

#[inline(always)]
fn byte(page: &Page, position: usize) -> u8 {
    debug_assert!(position < PAGE_SIZE);
    // SAFETY: S1.
    unsafe { *page.as_ptr().add(position) }
}

#[inline(always)]
fn four_bytes(page: &Page, position: usize) -> u32 {
    debug_assert!(position <= LAST_MATCH_START, "S1");
    // SAFETY: S1.
    u32::from_le(unsafe { page.as_ptr().add(position).cast::<u32>().read_unaligned() })
}

#[inline(always)]
fn eight_bytes(page: &Page, position: usize) -> u64 {
    debug_assert!(position + 8 <= PAGE_SIZE, "S1");
    // SAFETY: callers stay 8 bytes away from the page's end, as asserted.
    u64::from_le(unsafe { page.as_ptr().add(position).cast::<u64>().read_unaligned() })
}

/// How many bytes at `position` are those at `candidate`, four of which are known to be.
#[inline(always)]
fn match_length(page: &Page, candidate: usize, position: usize) -> usize {
    let mut length = MIN_MATCH;
    while position + length + 8 <= MATCH_END_LIMIT {
        let difference =
            eight_bytes(page, candidate + length) ^ eight_bytes(page, position + length);
        if difference != 0 {
            return length + (difference.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    while position + length < MATCH_END_LIMIT
        && byte(page, candidate + length) == byte(page, position + length)
    {
        length += 1;
    }
    length
}
