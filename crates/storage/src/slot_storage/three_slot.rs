//! The layout of RFC-0219: at most three objects a frame, in a left, a middle and a right slot.
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
//! rounded up; a slot that is free reaches up to its neighbours:
//!
//! * left: up to the middle object, or else up to the right one, or else the whole frame;
//! * right: the same from the other side;
//! * middle: what is between left and right, if both are taken. (If one of them is free, the
//!   space is the free one's; there is nothing that the middle could take and it could not.)
//!
//! So a large left or right object makes the middle slot small or leaves none at all: the
//! second complication that RFC-0219 names.
//!
//! Invariants, besides those of every layout (L1 to L3):
//! * M1 The taken slots are in order: left, middle, right.
//! * M2 `middle_offset` is 0 if the middle slot is free.
//!
//! Implements RFC-0219, "Compressed storage".
#![forbid(unsafe_op_in_unsafe_fn)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use coldpress_arena::Zeroable;

use super::SlotStorage;
use super::layout::{FrameLayout, footprint};
use crate::frame::FRAME_BYTES;
use crate::reference::GRANULE_BYTES;

/// Storage with a left, a middle and a right slot in each frame, that of RFC-0219.
///
/// About 33 KiB by itself; meant to be a `static`, or part of one.
pub type ThreeSlot = SlotStorage<ThreeSlots, 255>;

/// Slots, from left to right.
const LEFT: u8 = 0;
const MIDDLE: u8 = 1;
const RIGHT: u8 = 2;

/// Exact lengths of the objects, 0 for none, and where the middle one begins.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct ThreeSlots {
    lens: [u16; 3],
    middle_offset: u16,
}

/// The lengths and the offset, in one word.
pub struct Cell(AtomicU64);

// SAFETY: an atomic; zero is a frame without objects.
unsafe impl Zeroable for Cell {}

impl FrameLayout for ThreeSlots {
    const NAME: &'static str = "three-slot";
    const SLOTS: u8 = 3;

    type Cell = Cell;

    fn load(cell: &Cell) -> Self {
        let bits = cell.0.load(Relaxed);
        Self {
            lens: [bits as u16, (bits >> 16) as u16, (bits >> 32) as u16],
            middle_offset: (bits >> 48) as u16,
        }
    }

    fn store(self, cell: &Cell) {
        let [left, middle, right] = self.lens.map(u64::from);
        let bits = left | middle << 16 | right << 32 | u64::from(self.middle_offset) << 48;
        cell.0.store(bits, Relaxed);
    }

    fn len(self, slot: u8) -> usize {
        usize::from(self.lens[usize::from(slot)])
    }

    fn offset(self, slot: u8) -> usize {
        match slot {
            LEFT => 0,
            MIDDLE => usize::from(self.middle_offset),
            _ => FRAME_BYTES - footprint(self.len(RIGHT)),
        }
    }

    fn free_bytes(self, slot: u8) -> usize {
        if self.len(slot) != 0 {
            return 0;
        }
        let left_end = footprint(self.len(LEFT));
        let right_start = self.offset(RIGHT);
        let (middle_start, middle_end) = match self.len(MIDDLE) {
            0 => (right_start, left_end),
            len => {
                let start = self.offset(MIDDLE);
                (start, start + footprint(len))
            }
        };
        match slot {
            LEFT => middle_start,
            RIGHT => FRAME_BYTES - middle_end,
            _ if self.len(LEFT) == 0 || self.len(RIGHT) == 0 => 0,
            _ => right_start - left_end,
        }
    }

    /// In the middle an object follows the left one at once, so that the space beside it is in
    /// one piece, and the right slot's if that is freed.
    fn put(&mut self, slot: u8, len: usize) {
        debug_assert!(len != 0 && len <= self.free_bytes(slot));
        if slot == MIDDLE {
            self.middle_offset = footprint(self.len(LEFT)) as u16;
        }
        self.lens[usize::from(slot)] = len as u16;
    }

    fn clear(&mut self, slot: u8) {
        if slot == MIDDLE {
            self.middle_offset = 0;
        }
        self.lens[usize::from(slot)] = 0;
    }

    fn check_invariants(self) {
        let mut end = 0;
        for slot in [LEFT, MIDDLE, RIGHT] {
            let len = self.len(slot);
            if len != 0 {
                let offset = self.offset(slot);
                assert!(offset >= end, "L1, M1: slot {slot} overlaps, {self:?}");
                assert!(offset.is_multiple_of(GRANULE_BYTES), "L2: {self:?}");
                end = offset + footprint(len);
            }
        }
        assert!(end <= FRAME_BYTES, "L1: beyond the frame, {self:?}");
        assert!(self.len(MIDDLE) != 0 || self.middle_offset == 0, "M2");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [u8; 3] = [LEFT, MIDDLE, RIGHT];

    fn layout(left: usize, middle: usize, right: usize) -> ThreeSlots {
        let mut layout = ThreeSlots::default();
        for (slot, len) in [(LEFT, left), (RIGHT, right), (MIDDLE, middle)] {
            if len != 0 {
                layout.put(slot, len);
            }
        }
        layout.check_invariants();
        layout
    }

    fn free(layout: ThreeSlots) -> [usize; 3] {
        ALL.map(|slot| layout.free_bytes(slot))
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
        middle.clear(LEFT);
        assert_eq!(free(middle), [1000, 0, 0]);
        middle.clear(RIGHT);
        assert_eq!(free(middle), [1000, 0, 4096 - 1504]);
        middle.clear(MIDDLE);
        assert!(middle.is_empty());
    }

    #[test]
    fn lengths_are_exact_and_footprints_are_not() {
        let layout = layout(1, 9, 17);
        assert_eq!(ALL.map(|s| layout.len(s)), [1, 9, 17]);
        assert_eq!(ALL.map(|s| layout.offset(s)), [0, 8, 4096 - 24]);
        assert_eq!((layout.objects(), layout.payload_bytes()), (3, 27));
        let cell = Cell(AtomicU64::new(0));
        assert!(ThreeSlots::load(&cell).is_empty());
        layout.store(&cell);
        assert_eq!(ThreeSlots::load(&cell), layout);
        let mut layout = layout;
        layout.middle_offset = 4088;
        layout.store(&cell);
        assert_eq!(ThreeSlots::load(&cell), layout);
    }

    #[test]
    fn the_smallest_slot_that_fits_is_chosen() {
        let mut layout = layout(1000, 500, 1000);
        layout.clear(LEFT);
        layout.clear(RIGHT);
        assert_eq!(layout.choose(1000), Some(LEFT));
        assert_eq!(layout.choose(1001), Some(RIGHT));
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
                if middle != 0 && middle <= outer.free_bytes(MIDDLE) {
                    inner.put(MIDDLE, middle);
                }
                for cleared in 0..8 {
                    let mut some = inner;
                    ALL.into_iter()
                        .filter(|s| cleared >> s & 1 == 1)
                        .for_each(|s| some.clear(s));
                    some.check_invariants();
                    for slot in ALL {
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
