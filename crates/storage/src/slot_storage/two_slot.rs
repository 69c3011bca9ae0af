//! zbud: at most two objects a frame, the first and the last buddy.
//!
//! ```text
//!  0            first                          4096 − round8(last)             4096
//!  ├────────────┬──────────────────────────────┬───────────────────────────────┤
//!  │ first      │ free                         │                          last │
//!  ├────────────┴──────────────────────────────┴───────────────────────────────┤
//! ```
//!
//! "One bound to the beginning, one to the end." An object goes beside another in the smallest
//! frame that is sure to take it, or becomes the first buddy of a new frame. At best two pages in
//! one, "simplicity and stability".
//!
//! zbud keeps a header inside the frame and so "can't handle PAGE_SIZE allocations"; here what is
//! known of a frame is a record beside it, 12 bytes, and every object of up to a page is taken.
//!
//! Follows seed 002, "zswap backend: zbud".
#![forbid(unsafe_op_in_unsafe_fn)]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use coldpress_arena::Zeroable;

use super::SlotStorage;
use super::layout::{FrameLayout, footprint};
use crate::frame::FRAME_BYTES;

/// Storage with a first and a last buddy in each frame, zbud's.
///
/// About 33 KiB by itself; meant to be a `static`, or part of one.
pub type TwoSlot = SlotStorage<Buddies, 341>;

/// Slots.
const FIRST: u8 = 0;
const LAST: u8 = 1;

/// Exact lengths of first and last buddy; 0 for none.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Buddies {
    lens: [u16; 2],
}

/// Both lengths, in one word.
pub struct Cell(AtomicU32);

// SAFETY: an atomic; zero is a frame without objects.
unsafe impl Zeroable for Cell {}

impl FrameLayout for Buddies {
    const NAME: &'static str = "two-slot";
    const SLOTS: u8 = 2;

    type Cell = Cell;

    fn load(cell: &Cell) -> Self {
        let bits = cell.0.load(Relaxed);
        Self {
            lens: [bits as u16, (bits >> 16) as u16],
        }
    }

    fn store(self, cell: &Cell) {
        let [first, last] = self.lens.map(u32::from);
        cell.0.store(first | last << 16, Relaxed);
    }

    fn len(self, slot: u8) -> usize {
        usize::from(self.lens[usize::from(slot)])
    }

    fn offset(self, slot: u8) -> usize {
        match slot {
            FIRST => 0,
            _ => FRAME_BYTES - footprint(self.len(LAST)),
        }
    }

    fn free_bytes(self, slot: u8) -> usize {
        match self.len(slot) {
            0 => self.offset(LAST) - footprint(self.len(FIRST)),
            _ => 0,
        }
    }

    fn put(&mut self, slot: u8, len: usize) {
        debug_assert!(len != 0 && len <= self.free_bytes(slot));
        self.lens[usize::from(slot)] = len as u16;
    }

    fn clear(&mut self, slot: u8) {
        self.lens[usize::from(slot)] = 0;
    }

    fn check_invariants(self) {
        assert!(footprint(self.len(FIRST)) <= self.offset(LAST), "L1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_the_buddies_is_free() {
        let mut buddies = Buddies::default();
        assert_eq!([0, 1].map(|slot| buddies.free_bytes(slot)), [4096, 4096]);
        assert_eq!(buddies.choose(4096), Some(FIRST));
        buddies.put(FIRST, 1001);
        assert_eq!(buddies.largest_free_bytes(), 4096 - 1008);
        assert_eq!(buddies.choose(3088), Some(LAST));
        assert_eq!(buddies.choose(3089), None);
        buddies.put(LAST, 9);
        assert_eq!((buddies.offset(FIRST), buddies.offset(LAST)), (0, 4080));
        assert_eq!((buddies.objects(), buddies.payload_bytes()), (2, 1010));
        assert_eq!(buddies.largest_free_bytes(), 0, "a third is not taken");
        buddies.clear(FIRST);
        assert_eq!(buddies.choose(4080), Some(FIRST));
        buddies.clear(LAST);
        assert!(buddies.is_empty());
    }

    #[test]
    fn a_cell_keeps_both_lengths() {
        let cell = Cell(AtomicU32::new(0));
        assert!(Buddies::load(&cell).is_empty());
        let buddies = Buddies { lens: [1, 4088] };
        buddies.store(&cell);
        assert_eq!(Buddies::load(&cell), buddies);
    }
}
