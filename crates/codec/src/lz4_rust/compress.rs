//! The writer of sequences.
//!
//! Invariant I5: before a sequence is written, its bytes are known to fit in the output.

use super::copy::Output;
use super::search::{MIN_MATCH, Match, Table, search};
use crate::{PAGE_SIZE, Page};

/// Compresses `page` into `out`, and says how many bytes it takes; `None` if they do not fit in
/// `out`, known as early as the first sequence that does not, or are more than the page has.
///
/// The result does not depend on what `table` or `out` held before.
pub fn compress_block(
    table: &mut Table,
    page: &Page,
    out: &mut [u8],
    acceleration: i32,
) -> Option<usize> {
    let mut output = Output::new(out);
    let anchor = search(table, page, acceleration, |found| {
        put_sequence(&mut output, page, found)
    })?;
    put_last_literals(&mut output, page, anchor)?;
    Some(output.written())
}

/// Literals, and a match.
#[inline(always)]
fn put_sequence(output: &mut Output, page: &Page, found: Match) -> Option<()> {
    let literals = found.position - found.anchor;
    let length = found.length - MIN_MATCH;
    let needed_bytes = 1 + length_bytes(literals) + literals + 2 + length_bytes(length);
    if !output.has_room(needed_bytes) {
        return None;
    }
    output.put((literals.min(15) << 4 | length.min(15)) as u8);
    put_length(output, literals);
    output.put_literals(page, found.anchor, found.position);
    output.put_all(&(found.distance as u16).to_le_bytes());
    put_length(output, length);
    Some(())
}

/// The literals from `anchor` to the end of the page, which end the block.
fn put_last_literals(output: &mut Output, page: &Page, anchor: usize) -> Option<()> {
    let literals = PAGE_SIZE - anchor;
    if !output.has_room(1 + length_bytes(literals) + literals) {
        return None;
    }
    output.put((literals.min(15) << 4) as u8);
    put_length(output, literals);
    output.put_all(&page[anchor..]);
    Some(())
}

/// Bytes that follow a token for a length, whose first 15 the token holds.
#[inline(always)]
fn length_bytes(length: usize) -> usize {
    if length < 15 {
        0
    } else {
        (length - 15) / 255 + 1
    }
}

/// Those bytes: the last one is less than 255, as it ends the row.
#[inline(always)]
fn put_length(output: &mut Output, length: usize) {
    if length >= 15 {
        output.put_length(length - 15, 255, 254);
    }
}
