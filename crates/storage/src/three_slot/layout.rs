//! How up to three objects lie in one frame.
//!
//! ```text
//!  0          left.len   middle_offset                 4096 − round8(right.len)     4096
//!  ├───────────┬─────────┬────────────────┬─────────────┬──────────────────────────────┤
//!  │ left      │         │ middle         │             │ right                        │
//!  ├───────────┴─────────┴────────────────┴─────────────┴──────────────────────────────┤
//! ```
//!
//! The left slot begins where the frame begins, the right slot ends where the frame ends, and
//! the middle slot lies somewhere in between. A slot that is taken has the size of its object,
//! rounded up to [`GRANULE_BYTES`]; a slot that is free reaches up to its neighbours:
//!
//! * left: up to the middle object, or else up to the right one, or else the whole frame;
//! * right: the same from the other side;
//! * middle: what is between left and right, if both are taken. (If one of them is free, the
//!   space is the free one's; there is nothing that the middle could take and it could not.)
//!
//! So a large left or right object makes the middle slot small or leaves none at all: the
//! second complication that RFC-0219 names.
//!
//! Invariants:
//! * L1 The taken slots are in order, inside the frame, and do not overlap.
//! * L2 The offset of a taken slot is a multiple of [`GRANULE_BYTES`].
//! * L3 `middle_offset` is 0 if the middle slot is free.
#![forbid(unsafe_code)]

use crate::frame::FRAME_BYTES;
use crate::reference::GRANULE_BYTES;

/// One of the three slots.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Slot {
    Left = 0,
    Middle = 1,
    Right = 2,
}

impl Slot {
    pub(super) const ALL: [Slot; 3] = [Slot::Left, Slot::Middle, Slot::Right];

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// The objects of a frame; all zero is an empty frame. Lengths are exact.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Layout {
    left_bytes: u16,
    middle_bytes: u16,
    right_bytes: u16,
    middle_offset: u16,
}

/// Bytes that an object of `len` bytes takes.
pub(super) const fn footprint(len: usize) -> usize {
    len.next_multiple_of(GRANULE_BYTES)
}

impl Layout {
    /// The layout whose [`to_bits`](Self::to_bits) is `bits`.
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self {
            left_bytes: bits as u16,
            middle_bytes: (bits >> 16) as u16,
            right_bytes: (bits >> 32) as u16,
            middle_offset: (bits >> 48) as u16,
        }
    }

    /// The layout as one word.
    pub(super) const fn to_bits(self) -> u64 {
        self.left_bytes as u64
            | (self.middle_bytes as u64) << 16
            | (self.right_bytes as u64) << 32
            | (self.middle_offset as u64) << 48
    }

    /// Exact length of the object in `slot`; 0 if it is free.
    pub(super) fn len(self, slot: Slot) -> usize {
        usize::from(match slot {
            Slot::Left => self.left_bytes,
            Slot::Middle => self.middle_bytes,
            Slot::Right => self.right_bytes,
        })
    }

    /// Where the object in `slot` begins; of no meaning if the slot is free.
    pub(super) fn offset(self, slot: Slot) -> usize {
        match slot {
            Slot::Left => 0,
            Slot::Middle => usize::from(self.middle_offset),
            Slot::Right => FRAME_BYTES - footprint(self.len(Slot::Right)),
        }
    }

    /// Number of objects.
    pub(super) fn objects(self) -> usize {
        Slot::ALL.iter().filter(|s| self.len(**s) != 0).count()
    }

    /// Sum of the objects' lengths.
    pub(super) fn payload_bytes(self) -> usize {
        Slot::ALL.iter().map(|s| self.len(*s)).sum()
    }

    /// Whether no slot is taken.
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The largest object that fits in `slot`; 0 if it is taken or unavailable.
    pub(super) fn free_bytes(self, slot: Slot) -> usize {
        if self.len(slot) != 0 {
            return 0;
        }
        let left_end = footprint(self.len(Slot::Left));
        let right_start = self.offset(Slot::Right);
        let (middle_start, middle_end) = match self.len(Slot::Middle) {
            0 => (right_start, left_end),
            len => {
                let start = self.offset(Slot::Middle);
                (start, start + footprint(len))
            }
        };
        match slot {
            Slot::Left => middle_start,
            Slot::Right => FRAME_BYTES - middle_end,
            Slot::Middle if self.len(Slot::Left) == 0 || self.len(Slot::Right) == 0 => 0,
            Slot::Middle => right_start - left_end,
        }
    }

    /// The largest object that fits in any slot.
    pub(super) fn largest_free_bytes(self) -> usize {
        Slot::ALL
            .iter()
            .map(|s| self.free_bytes(*s))
            .max()
            .unwrap_or(0)
    }

    /// The smallest free slot that takes `len` bytes; of equal ones the leftmost.
    pub(super) fn choose(self, len: usize) -> Option<Slot> {
        Slot::ALL
            .into_iter()
            .filter(|s| self.free_bytes(*s) >= len)
            .min_by_key(|s| self.free_bytes(*s))
    }

    /// Puts an object of `len` bytes in `slot`. In the middle it follows the left one at once,
    /// so that the space beside it is in one piece, and the right slot's if that is freed.
    pub(super) fn put(&mut self, slot: Slot, len: usize) {
        debug_assert!(len != 0 && len <= self.free_bytes(slot));
        match slot {
            Slot::Left => self.left_bytes = len as u16,
            Slot::Right => self.right_bytes = len as u16,
            Slot::Middle => {
                self.middle_offset = footprint(self.len(Slot::Left)) as u16;
                self.middle_bytes = len as u16;
            }
        }
    }

    /// Frees `slot`.
    pub(super) fn clear(&mut self, slot: Slot) {
        match slot {
            Slot::Left => self.left_bytes = 0,
            Slot::Right => self.right_bytes = 0,
            Slot::Middle => (self.middle_bytes, self.middle_offset) = (0, 0),
        }
    }

    /// Panics if L1, L2 or L3 does not hold.
    pub(super) fn check_invariants(self) {
        let mut end = 0;
        for slot in Slot::ALL {
            let len = self.len(slot);
            if len != 0 {
                let offset = self.offset(slot);
                assert!(offset >= end, "L1: {slot:?} overlaps, {self:?}");
                assert!(offset.is_multiple_of(GRANULE_BYTES), "L2: {self:?}");
                end = offset + footprint(len);
            }
        }
        assert!(end <= FRAME_BYTES, "L1: beyond the frame, {self:?}");
        assert!(self.middle_bytes != 0 || self.middle_offset == 0, "L3");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(left: usize, middle: usize, right: usize) -> Layout {
        let mut layout = Layout::default();
        for (slot, len) in [
            (Slot::Left, left),
            (Slot::Right, right),
            (Slot::Middle, middle),
        ] {
            if len != 0 {
                layout.put(slot, len);
            }
        }
        layout.check_invariants();
        layout
    }

    fn free(layout: Layout) -> [usize; 3] {
        Slot::ALL.map(|slot| layout.free_bytes(slot))
    }

    #[test]
    fn free_slots_reach_up_to_their_neighbours() {
        assert_eq!(free(layout(0, 0, 0)), [4096, 0, 4096]);
        assert_eq!(free(layout(1000, 0, 0)), [0, 0, 3096]);
        assert_eq!(free(layout(0, 0, 1000)), [3096, 0, 0]);
        assert_eq!(free(layout(1000, 0, 1000)), [0, 2096, 0]);
        assert_eq!(free(layout(2048, 0, 2048)), [0, 0, 0], "middle unavailable");
        let mut middle = layout(1000, 500, 1000);
        assert_eq!(free(middle), [0, 0, 0]);
        middle.clear(Slot::Left);
        assert_eq!(free(middle), [1000, 0, 0]);
        middle.clear(Slot::Right);
        assert_eq!(free(middle), [1000, 0, 4096 - 1504]);
        middle.clear(Slot::Middle);
        assert!(middle.is_empty());
    }

    #[test]
    fn lengths_are_exact_and_footprints_are_not() {
        let layout = layout(1, 9, 17);
        assert_eq!(Slot::ALL.map(|s| layout.len(s)), [1, 9, 17]);
        assert_eq!(Slot::ALL.map(|s| layout.offset(s)), [0, 8, 4096 - 24]);
        assert_eq!((layout.objects(), layout.payload_bytes()), (3, 27));
        assert_eq!(Layout::from_bits(layout.to_bits()), layout);
    }

    #[test]
    fn the_smallest_slot_that_fits_is_chosen() {
        let mut layout = layout(1000, 500, 1000);
        layout.clear(Slot::Left);
        layout.clear(Slot::Right);
        assert_eq!(layout.choose(1000), Some(Slot::Left));
        assert_eq!(layout.choose(1001), Some(Slot::Right));
        assert_eq!(layout.choose(2593), None);
    }

    /// Every layout that lengths in steps can make: what `free_bytes` promises can be put, and
    /// what is free never overlaps what is taken.
    #[test]
    fn what_is_free_can_be_taken() {
        let lens = &[0, 500, 2040, 1, 8, 63, 1365, 2867, 4000, 4096];
        let lens = &lens[..if cfg!(miri) { 3 } else { lens.len() }];
        let all = lens
            .iter()
            .flat_map(|l| lens.iter().map(move |r| (*l, *r)))
            .filter(|(l, r)| footprint(*l) + footprint(*r) <= FRAME_BYTES);
        for (left, right) in all {
            let outer = layout(left, 0, right);
            for &middle in lens {
                let mut inner = outer;
                if middle != 0 && middle <= outer.free_bytes(Slot::Middle) {
                    inner.put(Slot::Middle, middle);
                }
                for cleared in 0..8 {
                    let mut some = inner;
                    Slot::ALL
                        .into_iter()
                        .filter(|s| cleared >> *s as u8 & 1 == 1)
                        .for_each(|s| some.clear(s));
                    some.check_invariants();
                    for slot in Slot::ALL {
                        let free_bytes = some.free_bytes(slot);
                        assert!(free_bytes <= some.largest_free_bytes());
                        assert!(free_bytes == 0 || some.len(slot) == 0);
                        if free_bytes != 0 {
                            let mut filled = some;
                            filled.put(slot, free_bytes);
                            filled.check_invariants();
                            assert_eq!(filled.free_bytes(slot), 0);
                        }
                    }
                }
            }
        }
    }
}
