//! References to stored objects: where an object is.
//!
//! A reference is the exact location of an object. It fits in 61 bits, so that the engine can
//! keep it in a page list entry above a 3-bit type:
//!
//! ```text
//!  63  61 60    59         53 52                        21 20         12 11            0
//!  ┌─────┬───────┬────────────┬────────────────────────────┬─────────────┬───────────────┐
//!  │  0  │ split │ slot       │ frame                      │ offset / 8  │ len − 1       │
//!  │     │ 1 bit │ 7 bits     │ 32 bits, not 0             │ 9 bits      │ 12 bits       │
//!  └─────┴───────┴────────────┴────────────────────────────┴─────────────┴───────────────┘
//! ```
//!
//! An object lies in one frame, or is *split* over two: then a [link](crate::access) of eight
//! bytes stands at its place, which says how many bytes follow it and where the rest is. What
//! `slot` means is the storage's affair. Reading the bytes needs frame, offset and length only:
//! no lock and no table, so that decompression never waits for a compressor.
//!
//! Invariants:
//! * R1 `frame >= 1`; hence no reference is 0.
//! * R2 `1 <= len`. A whole object lies inside its frame: `offset + len <= 4096`. A split one
//!   has its link there: `offset + 8 <= 4096`, which R3 implies.
//! * R3 `offset` is a multiple of [`GRANULE_BYTES`].
//!
//! R1 to R3 hold for every value of the type; [`Reference::from_bits`] checks them. That the
//! object exists does not follow: that is what the contract of [`data`](crate::data) is about.
#![forbid(unsafe_code)]

use crate::frame::{FRAME_BYTES, FrameIndex};

/// Objects begin at multiples of this many bytes.
pub const GRANULE_BYTES: usize = 8;

const LEN_BITS: u32 = 12;
const OFFSET_BITS: u32 = 9;
const FRAME_BITS: u32 = 32;
const SLOT_BITS: u32 = 7;

const OFFSET_SHIFT: u32 = LEN_BITS;
const FRAME_SHIFT: u32 = OFFSET_SHIFT + OFFSET_BITS;
const SLOT_SHIFT: u32 = FRAME_SHIFT + FRAME_BITS;
const SPLIT_SHIFT: u32 = SLOT_SHIFT + SLOT_BITS;

const _: () = assert!(SPLIT_SHIFT + 1 == Reference::BITS);
const _: () = assert!(1 << LEN_BITS == FRAME_BYTES);
const _: () = assert!(GRANULE_BYTES << OFFSET_BITS == FRAME_BYTES);

/// Where an object is stored.
#[derive(Copy, Clone, Eq, PartialEq, Debug, Hash)]
pub struct Reference(u64);

impl Reference {
    /// Bits that a reference takes; the bits above are 0.
    pub const BITS: u32 = 61;

    /// Slots are numbered below this.
    pub const SLOTS: u8 = 1 << SLOT_BITS;

    /// The reference to `len` bytes at `offset` of `frame`.
    ///
    /// # Panics
    /// If R1, R2 or R3 does not hold, or `slot` is not below [`SLOTS`](Self::SLOTS).
    #[inline]
    pub const fn new(frame: FrameIndex, offset: usize, len: usize, slot: u8) -> Self {
        assert!(
            len != 0 && len <= FRAME_BYTES && offset <= FRAME_BYTES - len,
            "R2"
        );
        Self(fields(frame, offset, len, slot))
    }

    /// The reference to an object of `len` bytes whose link is at `offset` of `frame`.
    ///
    /// # Panics
    /// If R1, R2 or R3 does not hold, or `slot` is not below [`SLOTS`](Self::SLOTS).
    #[inline]
    pub const fn new_split(frame: FrameIndex, offset: usize, len: usize, slot: u8) -> Self {
        assert!(len != 0 && len <= FRAME_BYTES && offset < FRAME_BYTES, "R2");
        Self(fields(frame, offset, len, slot) | 1 << SPLIT_SHIFT)
    }

    /// The reference whose [`to_bits`](Self::to_bits) is `bits`; `None` if there is none.
    #[inline]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        let reference = Self(bits);
        if bits >> Self::BITS == 0
            && reference.frame().0 != 0
            && (reference.is_split() || reference.offset() + reference.len() <= FRAME_BYTES)
        {
            Some(reference)
        } else {
            None
        }
    }

    /// The reference as a number below 2^61, not 0.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Whether the object lies in two frames, with a link at [`offset`](Self::offset).
    #[inline]
    pub const fn is_split(self) -> bool {
        self.0 >> SPLIT_SHIFT & 1 == 1
    }

    /// The frame that holds the object, or the first part of it.
    #[inline]
    pub const fn frame(self) -> FrameIndex {
        FrameIndex((self.0 >> FRAME_SHIFT) as u32)
    }

    /// Where in the frame the object (or its link) begins, in bytes.
    #[inline]
    pub const fn offset(self) -> usize {
        ((self.0 >> OFFSET_SHIFT) as usize & ((1 << OFFSET_BITS) - 1)) * GRANULE_BYTES
    }

    /// Bytes of the object, exactly as many as were allocated; never 0.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "no object is empty, so the question is not asked"
    )]
    pub const fn len(self) -> usize {
        (self.0 as usize & (FRAME_BYTES - 1)) + 1
    }

    /// What the storage that made the reference noted in it.
    #[inline]
    pub const fn slot(self) -> u8 {
        (self.0 >> SLOT_SHIFT) as u8 & (Self::SLOTS - 1)
    }
}

const fn fields(frame: FrameIndex, offset: usize, len: usize, slot: u8) -> u64 {
    assert!(frame.0 != 0, "R1");
    assert!(offset.is_multiple_of(GRANULE_BYTES), "R3");
    assert!(slot < Reference::SLOTS, "no such slot");
    (len as u64 - 1)
        | ((offset / GRANULE_BYTES) as u64) << OFFSET_SHIFT
        | (frame.0 as u64) << FRAME_SHIFT
        | (slot as u64) << SLOT_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_every_field_at_its_limits() {
        for frame in [1, 2, 0x8000_0000, u32::MAX] {
            for (offset, len) in [(0, 1), (0, 4096), (4088, 8), (4088, 1), (2048, 2048)] {
                for slot in [0, 1, 2, 127] {
                    let r = Reference::new(FrameIndex(frame), offset, len, slot);
                    assert_eq!(
                        (r.frame().0, r.offset(), r.len(), r.slot()),
                        (frame, offset, len, slot)
                    );
                    assert!(r.to_bits() != 0 && r.to_bits() >> Reference::BITS == 0);
                    assert_eq!(Reference::from_bits(r.to_bits()), Some(r));
                    let s = Reference::new_split(FrameIndex(frame), offset, len, slot);
                    assert_eq!(
                        (s.frame().0, s.offset(), s.len(), s.slot()),
                        (frame, offset, len, slot)
                    );
                    assert!(s.is_split() && !r.is_split());
                    assert!(s.to_bits() >> Reference::BITS == 0);
                    assert_eq!(Reference::from_bits(s.to_bits()), Some(s));
                }
            }
        }
    }

    #[test]
    fn refuses_bits_that_no_reference_has() {
        assert_eq!(Reference::from_bits(0), None, "R1");
        assert_eq!(Reference::from_bits(4095), None, "R1");
        let whole = Reference::new(FrameIndex(1), 0, 4096, 0).to_bits();
        assert_eq!(Reference::from_bits(whole | 1 << OFFSET_SHIFT), None, "R2");
        assert_eq!(Reference::from_bits(whole | 1 << 61), None, "61 bits");
        assert_eq!(Reference::from_bits(u64::MAX), None);
    }

    #[test]
    #[should_panic(expected = "R2")]
    fn is_not_made_of_more_than_a_frame() {
        Reference::new(FrameIndex(1), 8, 4089, 0);
    }
}
