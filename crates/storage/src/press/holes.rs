//! Lists of holes, one for each size a hole can have.
//!
//! ```text
//!  rows    0 0 1 0 0 0 0 1              one bit a word of `filled`
//!  filled  …0 0 1 0 0 1 0…  × 8         one bit a size: its list is not empty
//!                 │
//!  heads   … ─────┴──▶ hole ⇄ hole ⇄ hole         the links lie in the holes themselves
//! ```
//!
//! A frame has 511 units, so there are few enough sizes for a list each: the best fit is the
//! first bit at or above the size, two bit scans away. No search, and no memory besides the heads.
//!
//! Invariants:
//! * B1 `filled` and `rows` say which heads are not none.
//! * B2 The links of a list agree; every hole on list `u` has `u` units; `units` is their sum.
#![forbid(unsafe_op_in_unsafe_fn)]

use super::block::{Blocks, END_UNIT, Kind, LISTED_UNITS, Place};
use crate::frame::FrameSource;

const ROWS: usize = END_UNIT / 64;

/// A hole: where it is, and how long.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Hole {
    pub(super) units: usize,
    pub(super) place: Place,
}

/// Heads of all lists.
pub(super) struct Holes {
    heads: [Place; END_UNIT],
    filled: [u64; ROWS],
    rows: u8,
    /// Units of all holes listed.
    units: usize,
}

impl Holes {
    pub(super) const fn new() -> Self {
        Self {
            heads: [Place::NONE; END_UNIT],
            filled: [0; ROWS],
            rows: 0,
            units: 0,
        }
    }

    /// Units of all holes listed.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// The smallest hole of at least `units`, which is at most a frame's.
    #[inline]
    pub(super) fn smallest(&self, units: usize) -> Option<Hole> {
        let (row, bit) = (units / 64, units % 64);
        let here = self.filled[row] >> bit << bit;
        let row = if here != 0 {
            row
        } else {
            // Shifted twice: eight rows are as many as the byte has bits.
            let rows = self.rows >> row >> 1 << 1 << row;
            if rows == 0 {
                return None;
            }
            rows.trailing_zeros() as usize
        };
        let bits = if here != 0 { here } else { self.filled[row] };
        Some(self.head(row * 64 + bits.trailing_zeros() as usize))
    }

    /// The largest hole.
    #[inline]
    pub(super) fn largest(&self) -> Option<Hole> {
        let row = self.rows.checked_ilog2()? as usize;
        Some(self.head(row * 64 + self.filled[row].ilog2() as usize))
    }

    #[inline]
    fn head(&self, units: usize) -> Hole {
        Hole {
            units,
            place: self.heads[units],
        }
    }

    /// Puts a hole on its list, if it is large enough for one.
    ///
    /// # Safety
    /// The frames of all holes listed, and of this one, are held; the storage lock is too; the
    /// hole is on no list.
    pub(super) unsafe fn insert(&mut self, frames: &impl FrameSource, hole: Hole) {
        let Hole { units, place } = hole;
        if units < LISTED_UNITS {
            return;
        }
        let head = self.heads[units];
        // SAFETY: as promised; units are those of holes.
        let blocks = unsafe { Blocks::of(frames, place.frame) };
        debug_assert_eq!(blocks.header(place.unit()).units(), units);
        blocks.set_next(place.unit(), head);
        blocks.set_previous(place.unit(), Place::NONE);
        if !head.is_none() {
            // SAFETY: as promised; B2: there is a hole.
            unsafe { Blocks::of(frames, head.frame) }.set_previous(head.unit(), place);
        }
        self.heads[units] = place;
        self.filled[units / 64] |= 1 << (units % 64);
        self.rows |= 1 << (units / 64);
        self.units += units;
    }

    /// Takes a hole off its list, if it is large enough for one.
    ///
    /// # Safety
    /// As for [`insert`](Self::insert), but that the hole is on its list.
    pub(super) unsafe fn remove(&mut self, frames: &impl FrameSource, hole: Hole) {
        let Hole { units, place } = hole;
        if units < LISTED_UNITS {
            return;
        }
        // SAFETY: as promised; units are those of holes.
        let blocks = unsafe { Blocks::of(frames, place.frame) };
        let (next, previous) = (blocks.next(place.unit()), blocks.previous(place.unit()));
        if !next.is_none() {
            // SAFETY: as promised; B2: there is a hole.
            unsafe { Blocks::of(frames, next.frame) }.set_previous(next.unit(), previous);
        }
        if previous.is_none() {
            debug_assert_eq!(self.heads[units], place, "B2");
            self.heads[units] = next;
            if next.is_none() {
                self.filled[units / 64] &= !(1 << (units % 64));
                if self.filled[units / 64] == 0 {
                    self.rows &= !(1 << (units / 64));
                }
            }
        } else {
            // SAFETY: as promised; B2: there is a hole.
            unsafe { Blocks::of(frames, previous.frame) }.set_next(previous.unit(), next);
        }
        self.units -= units;
    }

    /// Panics if B1 or B2 does not hold. `visit` is called with each hole; there are at most
    /// `limit`.
    ///
    /// # Safety
    /// The frames of all holes listed are held; the storage lock is too.
    pub(super) unsafe fn check_invariants(
        &self,
        frames: &impl FrameSource,
        limit: usize,
        mut visit: impl FnMut(Place),
    ) {
        let (mut seen, mut sum) = (0, 0);
        for (units, head) in self.heads.iter().enumerate() {
            let filled = self.filled[units / 64] >> (units % 64) & 1 == 1;
            assert_eq!(filled, !head.is_none(), "B1");
            let (mut previous, mut place) = (Place::NONE, *head);
            while !place.is_none() {
                // SAFETY: as promised.
                let blocks = unsafe { Blocks::of(frames, place.frame) };
                let header = blocks.header(place.unit());
                assert_eq!((header.kind, header.value), (Kind::Hole, units), "B2");
                assert_eq!(blocks.previous(place.unit()), previous, "B2");
                (seen, sum) = (seen + 1, sum + units);
                assert!(seen <= limit, "B2: a list is a cycle");
                visit(place);
                (previous, place) = (place, blocks.next(place.unit()));
            }
        }
        for (row, filled) in self.filled.iter().enumerate() {
            assert_eq!(self.rows >> row & 1 == 1, *filled != 0, "B1");
        }
        assert_eq!(sum, self.units, "B2");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FRAME_BYTES, FrameIndex};
    use core::cell::UnsafeCell;
    use core::ptr::NonNull;
    use std::boxed::Box;
    use std::vec::Vec;

    #[repr(align(4096))]
    struct Frame(UnsafeCell<[u8; FRAME_BYTES]>);
    struct Frames(Box<[Frame]>);
    // SAFETY: used by one thread.
    unsafe impl Sync for Frames {}
    // SAFETY: each number is an element of the box.
    unsafe impl FrameSource for Frames {
        fn allocate(&self) -> Option<FrameIndex> {
            None
        }
        fn free(&self, _: FrameIndex) {}
        fn address(&self, frame: FrameIndex) -> NonNull<u8> {
            NonNull::new(self.0[frame.0 as usize].0.get().cast()).unwrap()
        }
    }

    /// A hole of each of these sizes, in a frame of its own.
    fn holes(units: &[usize]) -> (Frames, Vec<Hole>) {
        let frame = |_| Frame(UnsafeCell::new([0; FRAME_BYTES]));
        let frames = Frames((0..=units.len()).map(frame).collect());
        let make = |(n, units): (usize, &usize)| {
            let place = Place::new(n as u32 + 1, 1);
            // SAFETY: the frames are the test's.
            unsafe { Blocks::of(&frames, place.frame) }.set_hole(1, *units);
            Hole {
                units: *units,
                place,
            }
        };
        let holes = units.iter().enumerate().map(make).collect();
        (frames, holes)
    }

    #[test]
    fn finds_the_best_fit_and_the_largest() {
        for sizes in [
            &[2, 3, 63, 64, 65, 127, 128, 448, 510, 511][..],
            &[511],
            &[2],
            &[300, 300, 300],
        ] {
            let (frames, made) = holes(sizes);
            let mut lists = Holes::new();
            for hole in &made {
                // SAFETY: the holes were made, and are on no list.
                unsafe { lists.insert(&frames, *hole) };
            }
            for units in 1..END_UNIT {
                let best = sizes.iter().filter(|size| **size >= units).min();
                let found = lists.smallest(units);
                assert_eq!(found.map(|hole| hole.units), best.copied(), "{units}");
            }
            assert_eq!(
                lists.largest().map(|hole| hole.units),
                sizes.iter().max().copied()
            );
            // SAFETY: as above.
            unsafe { lists.check_invariants(&frames, sizes.len(), |_| ()) };
            for (n, hole) in made.iter().enumerate() {
                // SAFETY: each is on its list.
                unsafe {
                    lists.remove(&frames, *hole);
                    lists.check_invariants(&frames, sizes.len() - n - 1, |_| ());
                }
            }
            assert_eq!((lists.largest(), lists.smallest(1)), (None, None));
        }
    }

    #[test]
    fn a_hole_too_small_for_links_is_on_no_list() {
        let (frames, made) = holes(&[1]);
        let mut lists = Holes::new();
        // SAFETY: the hole was made.
        unsafe {
            lists.insert(&frames, made[0]);
            assert_eq!(lists.largest(), None);
            lists.remove(&frames, made[0]);
        }
    }
}
