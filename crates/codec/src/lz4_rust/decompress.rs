//! The reader of sequences.
//!
//! Most sequences of heap pages are short: fewer than 15 literals, a match of at most 18 bytes
//! at a distance of 8 or more. Such a sequence takes one comparison of the room left on either
//! side, and three copies of fixed size:
//!
//! ```text
//!  stored   │T│ literals      │dist│ …           room: 16 bytes behind the token
//!              └─ copy 16 ──┐
//!  page  ─────────────────▶ │ literals │ match            │     room: 14 + 18 bytes
//!                                       └ copy 8, 8 and 2 ─┘
//! ```
//!
//! Every other one is read with each length checked against what is left.
//!
//! Invariants:
//! * I5 `read <= stored.len()` and `written <= PAGE_SIZE` between any two steps, and no access
//!   goes beyond: each is preceded by a comparison with what is left.
//! * I6 Bytes of the page below `written` follow from the stored bytes alone. A match copies
//!   from there only: its distance is at least 1 and at most `written`, and a step never
//!   reads what an earlier page left, but to write it at or beyond the new `written`, where it
//!   will be written over. When all of the page is written nothing of that is left.

use super::copy::{SLACK_BYTES, copy_8, copy_16, copy_by_16, copy_match};
use super::search::MIN_MATCH;
use crate::{Corrupt, PAGE_SIZE, Page};

/// Writes the page to which the block `stored` decodes.
///
/// # Errors
/// [`Corrupt`] if `stored` is not a block of exactly one page, or is longer than a page. What the
/// page then holds is of no use.
pub fn decompress_block(stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
    if stored.len() > PAGE_SIZE {
        return Err(Corrupt);
    }
    let (source, target) = (stored.as_ptr(), page.as_mut_ptr());
    let mut read = 0;
    let mut written = 0;
    loop {
        let token = *stored.get(read).ok_or(Corrupt)?;
        read += 1;
        let mut literals = usize::from(token >> 4);
        let mut length = usize::from(token & 15) + MIN_MATCH;
        let distance;
        if literals < 15 && read + 16 <= stored.len() && written + 14 + 18 <= PAGE_SIZE {
            // SAFETY: I5: 16 bytes were just found on either side. A distance lies behind at
            // most 14 literals, within the 16.
            distance = unsafe {
                copy_16(source.add(read), target.add(written));
                distance_at(source.add(read + literals))
            };
            read += literals + 2;
            written += literals;
        } else {
            if literals == 15 {
                literals += long_length(stored, &mut read)?;
            }
            // SAFETY: `target` is the page, of which so much is written.
            unsafe { copy_literals(stored, read, target, written, literals)? };
            read += literals;
            written += literals;
            if read == stored.len() {
                // Only the last sequence ends here.
                return if written == PAGE_SIZE {
                    Ok(())
                } else {
                    Err(Corrupt)
                };
            }
            if stored.len() - read < 2 {
                return Err(Corrupt);
            }
            // SAFETY: I5: two bytes were just found.
            distance = unsafe { distance_at(source.add(read)) };
            read += 2;
        }
        if length < 15 + MIN_MATCH && (8..=written).contains(&distance) && written + 18 <= PAGE_SIZE
        {
            // SAFETY: I5: 18 bytes are left, and `distance` bytes lie before them. I6: a step of 8
            // bytes reads bytes that are at least 8 behind.
            unsafe { copy_18(target.add(written), distance) };
            written += length;
            continue;
        }
        if length == 15 + MIN_MATCH {
            length += long_length(stored, &mut read)?;
        }
        if distance == 0 || distance > written || length > PAGE_SIZE - written {
            return Err(Corrupt);
        }
        // SAFETY: I5, I6: as just compared.
        unsafe { copy_match(target, written, distance, length) };
        written += length;
    }
}

/// Copies literals of any number, which may end with the block or with the page.
///
/// # Safety
/// `target` is a page, which nobody else uses; `written <= PAGE_SIZE`, and `read <= stored.len()`.
#[inline(always)]
unsafe fn copy_literals(
    stored: &[u8],
    read: usize,
    target: *mut u8,
    written: usize,
    literals: usize,
) -> Result<(), Corrupt> {
    if literals > stored.len() - read || literals > PAGE_SIZE - written {
        return Err(Corrupt);
    }
    let left = (stored.len() - read).min(PAGE_SIZE - written);
    // SAFETY: I5: as many bytes were just found on either side; they are different memory, one of which is the page
    // alone.
    unsafe {
        let (from, to) = (stored.as_ptr().add(read), target.add(written));
        if literals + SLACK_BYTES <= left {
            copy_by_16(from, to, literals);
        } else {
            from.copy_to_nonoverlapping(to, literals);
        }
    }
    Ok(())
}

/// Copies 18 bytes from `distance` before `to`, in steps of 8.
///
/// # Safety
/// 18 bytes can be written at `to`, and as many read `distance` bytes before it, which is at least 8.
#[inline(always)]
unsafe fn copy_18(to: *mut u8, distance: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        let from = to.sub(distance);
        copy_8(from, to);
        copy_8(from.add(8), to.add(8));
        to.add(16)
            .cast::<[u8; 2]>()
            .write(from.add(16).cast::<[u8; 2]>().read());
    }
}

/// The distance in two bytes.
///
/// # Safety
/// Two bytes can be read at `source`.
#[inline(always)]
unsafe fn distance_at(source: *const u8) -> usize {
    // SAFETY: the caller's contract; an array of bytes has no alignment.
    usize::from(u16::from_le_bytes(unsafe {
        source.cast::<[u8; 2]>().read()
    }))
}

/// What is added to a length of 15: bytes up to the first that is not 255, and that one.
#[inline]
fn long_length(stored: &[u8], read: &mut usize) -> Result<usize, Corrupt> {
    let mut length = 0;
    loop {
        let byte = *stored.get(*read).ok_or(Corrupt)?;
        *read += 1;
        // No overflow: no more than a page of bytes is read.
        length += usize::from(byte);
        if byte != 255 {
            return Ok(length);
        }
    }
}
