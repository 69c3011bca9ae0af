//! Pages of few runs: a word, and what follows is the same word until the next entry.
//!
//! ```text
//!  header, 2 B              entry                          entry
//!  ┌──────┬─────────┐ ┌────────────────┬────────────┐ ┌────────────────┬──────
//!  │ kind │ entries │ │ index │ width  │ width bytes│ │ index │ width  │ …
//!  └──────┴─────────┘ └────────────────┴────────────┘ └────────────────┴──────
//!   1 B     1 B         9 bits, 4 bits   0 to 8 B
//! ```
//!
//! An entry has the `width` low bytes in which its word differs from that of the entry before
//! (from zero, in the first), as their exclusive or; the others are the same. Width 9 is the word
//! of the entry before the one before: of what was interrupted. The first entry has index 0, and
//! indices grow. A page that is one word but for one other in the middle takes 7 to 24 bytes, in
//! the time of one pass over it.
#![forbid(unsafe_code)]

use super::format::WORDS;
use crate::{Corrupt, Page};

/// First byte of such a page.
pub(crate) const KIND: u8 = 1;

/// Pages with more changes from a word to the next than this are not stored as runs.
pub(crate) const MOST_RUNS: usize = 24;

const INDEX_BITS: u32 = 9;
const WIDTH_BEFORE_LAST: usize = 9;

/// Writes the page as runs. `None`: more than `out` holds, or than [`MOST_RUNS`] runs.
pub(crate) fn encode(page: &Page, out: &mut [u8]) -> Option<usize> {
    let (words, _) = page.as_chunks::<8>();
    let mut at = 2;
    let mut entries = 0;
    // The words of the last entry and of the one before it.
    let (mut last, mut before_last) = (None, None);
    for (index, bytes) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        if last == Some(word) {
            continue;
        }
        if entries == MOST_RUNS {
            return None;
        }
        let change = word ^ last.unwrap_or(0);
        let width = if before_last == Some(word) {
            WIDTH_BEFORE_LAST
        } else {
            8 - change.leading_zeros() as usize / 8
        };
        let (place, value) = out.get_mut(at..)?.split_at_mut_checked(2)?;
        place.copy_from_slice(&(index as u16 | (width as u16) << INDEX_BITS).to_le_bytes());
        at += 2;
        if width <= 8 {
            let change = change.to_le_bytes();
            value.get_mut(..width)?.copy_from_slice(&change[..width]);
            at += width;
        }
        entries += 1;
        before_last = last;
        last = Some(word);
    }
    *out.get_mut(..2)?.first_chunk_mut()? = [KIND, entries as u8];
    Some(at)
}

/// Writes the page that `stored`, which begins with [`KIND`], describes.
pub(crate) fn decode(stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
    let (&[kind, entries], mut rest) = stored.split_first_chunk().ok_or(Corrupt)?;
    if kind != KIND || entries == 0 || entries as usize > MOST_RUNS {
        return Err(Corrupt);
    }
    let (words, _) = page.as_chunks_mut::<8>();
    let (mut before_last, mut last) = (None, None);
    let mut filled = 0;
    for entry in 0..entries {
        let (place, value) = rest.split_first_chunk().ok_or(Corrupt)?;
        let place = u16::from_le_bytes(*place);
        let index = (place & ((1 << INDEX_BITS) - 1)) as usize;
        let width = (place >> INDEX_BITS) as usize;
        let in_order = if entry == 0 {
            index == 0
        } else {
            index > filled
        };
        if !in_order {
            return Err(Corrupt);
        }
        words[filled..index].fill(last.unwrap_or(0_u64).to_le_bytes());
        filled = index;
        let word = if width == WIDTH_BEFORE_LAST {
            rest = value;
            before_last.ok_or(Corrupt)?
        } else {
            let bytes = value.get(..width).filter(|_| width <= 8).ok_or(Corrupt)?;
            rest = &value[width..];
            let mut change = [0; 8];
            change[..width].copy_from_slice(bytes);
            last.unwrap_or(0) ^ u64::from_le_bytes(change)
        };
        before_last = last;
        last = Some(word);
    }
    let word = last.unwrap_or(0).to_le_bytes();
    words[filled..].fill(word);
    rest.is_empty().then_some(()).ok_or(Corrupt)
}

const _: () = assert!(WORDS <= 1 << INDEX_BITS);
