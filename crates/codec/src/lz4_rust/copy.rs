//! Copies in steps of 8 or 16 bytes, which may go beyond what is asked for; and the output.
//!
//! What a step writes beyond the end is written over later, or is no part of the result. That
//! is where the speed comes from: literals and matches are short, and a loop that counts bytes
//! costs more than the bytes.
//!
//! Invariant C1: every step reads and writes inside the buffers, slack included. Callers
//! compare before, and say so.

use crate::{PAGE_SIZE, Page};

/// What copies in steps may read and write beyond their end.
pub(crate) const SLACK_BYTES: usize = 16;

/// Copies 8 bytes that need not be aligned, through a register: the two may overlap.
///
/// # Safety
/// 8 bytes at `from` can be read, and 8 bytes at `to` written.
#[inline(always)]
pub(crate) unsafe fn copy_8(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's contract; no alignment is asked for.
    unsafe {
        to.cast::<u64>()
            .write_unaligned(from.cast::<u64>().read_unaligned());
    }
}

/// Copies 16 bytes that need not be aligned, through registers: the two may overlap.
///
/// # Safety
/// 16 bytes at `from` can be read, and 16 bytes at `to` written.
#[inline(always)]
pub(crate) unsafe fn copy_16(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's contract; no alignment is asked for.
    unsafe {
        to.cast::<u128>()
            .write_unaligned(from.cast::<u128>().read_unaligned());
    }
}

/// Copies `length` bytes, and up to [`SLACK_BYTES`] more.
///
/// # Safety
/// As many bytes can be read at `from` and written at `to`, with the slack; `from` is other
/// memory, or at least 16 bytes before `to`.
#[inline(always)]
pub(crate) unsafe fn copy_by_16(mut from: *const u8, mut to: *mut u8, length: usize) {
    // SAFETY: the caller's contract: steps begin before the end, and are no longer than the slack.
    unsafe {
        let end = to.add(length);
        while to < end {
            copy_16(from, to);
            from = from.add(16);
            to = to.add(16);
        }
    }
}

/// Copies `length` bytes to `written` from `distance` bytes before: in steps, up to the last
/// [`SLACK_BYTES`] of the page, and there byte by byte.
///
/// # Safety
/// `target` is a page; `1 <= distance <= written` and `written + length <= PAGE_SIZE`.
#[inline(always)]
pub(crate) unsafe fn copy_match(target: *mut u8, written: usize, distance: usize, length: usize) {
    /// The greatest multiple of a distance that is at most 8.
    const WHOLE: [usize; 8] = [8, 8, 8, 6, 8, 5, 6, 7];
    // SAFETY: the caller's contract: the copy begins `distance` bytes before `written`, which
    // is inside the page, and ends inside. C1: a step begins before `steps_end`, and the
    // slack lies between that and the end of the page. Bytes that one step reads were written by
    // those before, since no step is longer than the distance.
    unsafe {
        let mut to = target.add(written);
        let end = to.add(length);
        let steps_end = end.min(target.add(PAGE_SIZE - SLACK_BYTES));
        if distance >= 16 {
            while to < steps_end {
                copy_16(to.sub(distance), to);
                to = to.add(16);
            }
        } else if distance >= 8 {
            while to < steps_end {
                copy_8(to.sub(distance), to);
                to = to.add(8);
            }
        } else if to < steps_end {
            let pattern = pattern_of(to.sub(distance), distance);
            while to < steps_end {
                to.cast::<u64>().write_unaligned(pattern);
                to = to.add(WHOLE[distance]);
            }
        }
        while to < end {
            to.write(to.sub(distance).read());
            to = to.add(1);
        }
    }
}

/// Eight bytes of what the `distance` bytes at `from` become when they are repeated, as they lie
/// in memory.
///
/// # Safety
/// 8 bytes can be read at `from`, and `distance` is from 1 to 7.
#[inline(always)]
unsafe fn pattern_of(from: *const u8, distance: usize) -> u64 {
    /// A bit at the beginning of each repetition: a product with it repeats.
    const REPEATED: [u64; 8] = [
        0,
        0x0101_0101_0101_0101,
        0x0001_0001_0001_0001,
        0x0001_0000_0100_0001,
        0x0000_0001_0000_0001,
        0x0000_0100_0000_0001,
        0x0001_0000_0000_0001,
        0x0100_0000_0000_0001,
    ];
    // SAFETY: the caller's contract; no alignment is asked for.
    let bytes = u64::from_le(unsafe { from.cast::<u64>().read_unaligned() });
    let first = bytes & ((1 << (8 * distance)) - 1);
    first.wrapping_mul(REPEATED[distance % 8]).to_le()
}

/// The output of a compressor, whose length is the bound.
pub(crate) struct Output<'a> {
    bytes: &'a mut [u8],
    written: usize,
}

impl<'a> Output<'a> {
    /// An output of as many bytes, but no more than a page.
    #[inline(always)]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        let limit = bytes.len().min(PAGE_SIZE);
        Self {
            bytes: &mut bytes[..limit],
            written: 0,
        }
    }

    /// Bytes written so far.
    #[inline(always)]
    pub fn written(&self) -> usize {
        self.written
    }

    /// Whether `bytes` more fit.
    #[inline(always)]
    pub fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.bytes.len() - self.written
    }

    #[inline(always)]
    pub fn put(&mut self, byte: u8) {
        self.bytes[self.written] = byte;
        self.written += 1;
    }

    #[inline(always)]
    pub fn put_all(&mut self, bytes: &[u8]) {
        self.bytes[self.written..self.written + bytes.len()].copy_from_slice(bytes);
        self.written += bytes.len();
    }

    /// Sets bits of the last byte but one.
    #[inline(always)]
    pub fn amend_last_but_one(&mut self, bits: u8) {
        self.bytes[self.written - 2] |= bits;
    }

    /// A length in bytes that are added up: `filler`s, which stand for 255 each, until no more
    /// than `greatest_rest` is left, and that.
    #[inline(always)]
    pub fn put_length(&mut self, mut length: usize, filler: u8, greatest_rest: usize) {
        while length > greatest_rest {
            self.put(filler);
            length -= 255;
        }
        self.put(length as u8);
    }

    /// The literals of a page from `anchor` to `position`; there is room for them.
    #[inline(always)]
    pub fn put_literals(&mut self, page: &Page, anchor: usize, position: usize) {
        let literals = &page[anchor..position];
        if !self.has_room(literals.len() + SLACK_BYTES) || position + SLACK_BYTES > PAGE_SIZE {
            return self.put_all(literals);
        }
        // SAFETY: C1: the slack was just found on either side.
        unsafe {
            copy_by_16(
                page.as_ptr().add(anchor),
                self.bytes.as_mut_ptr().add(self.written),
                literals.len(),
            );
        }
        self.written += literals.len();
    }
}
