//! How objects lie in the slots of one frame: what [`SlotStorage`](super::SlotStorage) asks of it.
//!
//! A layout is a small value: it is read from its cell, changed, and put back. Objects begin at
//! multiples of [`GRANULE_BYTES`] and take their length rounded up to it; lengths themselves are exact.
//!
//! Invariants, of every layout:
//! * L1 The taken slots lie inside the frame, and do not overlap.
//! * L2 The offset of a taken slot is a multiple of [`GRANULE_BYTES`].
//! * L3 A layout without objects is the default, and a cell of zeros.
#![forbid(unsafe_code)]

use core::fmt::Debug;

use coldpress_arena::Zeroable;

use crate::reference::GRANULE_BYTES;

/// Bytes that an object of `len` bytes takes.
pub(super) const fn footprint(len: usize) -> usize {
    len.next_multiple_of(GRANULE_BYTES)
}

/// The objects of a frame, in slots numbered from 0 to `SLOTS − 1`.
pub trait FrameLayout: Copy + Debug + Default + Eq + Send + 'static {
    /// The name of a storage whose frames have this layout.
    const NAME: &'static str;

    /// Number of slots.
    const SLOTS: u8;

    /// What keeps a layout in the table of frames: an atomic word.
    type Cell: Zeroable + Send + Sync;

    /// The layout that a cell keeps.
    fn load(cell: &Self::Cell) -> Self;

    /// Keeps the layout in a cell.
    fn store(self, cell: &Self::Cell);

    /// Exact length of the object in `slot`; 0 if it is free.
    fn len(self, slot: u8) -> usize;

    /// Where the object in `slot` begins; of no meaning if the slot is free.
    fn offset(self, slot: u8) -> usize;

    /// The largest object that fits in `slot`; 0 if it is taken or unavailable.
    fn free_bytes(self, slot: u8) -> usize;

    /// Puts an object of `len` bytes, at most what is free, in `slot`.
    fn put(&mut self, slot: u8, len: usize);

    /// Frees `slot`.
    fn clear(&mut self, slot: u8);

    /// Panics if an invariant does not hold.
    fn check_invariants(self);

    /// Whether no slot is taken (L3).
    fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Number of objects.
    fn objects(self) -> usize {
        (0..Self::SLOTS).filter(|slot| self.len(*slot) != 0).count()
    }

    /// Sum of the objects' lengths.
    fn payload_bytes(self) -> usize {
        (0..Self::SLOTS).map(|slot| self.len(slot)).sum()
    }

    /// The largest object that fits in any slot.
    fn largest_free_bytes(self) -> usize {
        let free = (0..Self::SLOTS).map(|slot| self.free_bytes(slot));
        free.max().unwrap_or(0)
    }

    /// The smallest free slot that takes `len` bytes; of equal ones the first.
    fn choose(self, len: usize) -> Option<u8> {
        (0..Self::SLOTS)
            .filter(|slot| self.free_bytes(*slot) >= len)
            .min_by_key(|slot| self.free_bytes(*slot))
    }
}
