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

    /// The smallest hole of at least `units`: how many it has, and its place.
    pub(super) fn best(&self, units: usize) -> Option<(usize, Place)> {
        if units >= END_UNIT {
            return None;
        }
        let (row, bit) = (units / 64, units % 64);
        let here = self.filled[row] >> bit << bit;
        let (row, bits) = if here != 0 {
            (row, here)
        } else {
            let rows = self.rows & (!0_u8).checked_shl(row as u32 + 1).unwrap_or(0);
            if rows == 0 {
                return None;
            }
            let row = rows.trailing_zeros() as usize;
            (row, self.filled[row])
        };
        let found = row * 64 + bits.trailing_zeros() as usize;
        Some((found, self.heads[found]))
    }

    /// The largest hole of at most `units`.
    pub(super) fn largest(&self, units: usize) -> Option<(usize, Place)> {
        let units = units.min(END_UNIT - 1);
        let (row, bit) = (units / 64, units % 64);
        let here = self.filled[row] & (!0 >> (63 - bit));
        let (row, bits) = if here != 0 {
            (row, here)
        } else {
            let rows = self.rows & !((!0_u8) << row);
            if rows == 0 {
                return None;
            }
            let row = 7 - rows.leading_zeros() as usize;
            (row, self.filled[row])
        };
        let found = row * 64 + 63 - bits.leading_zeros() as usize;
        Some((found, self.heads[found]))
    }

    /// Puts a hole on its list, if it is large enough for one.
    ///
    /// # Safety
    /// The frames of all holes listed, and of this one, are held; the storage lock is too; there
    /// is a hole of so many units at `place`, on no list.
    pub(super) unsafe fn insert(&mut self, frames: &impl FrameSource, place: Place, units: usize) {
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
    pub(super) unsafe fn remove(&mut self, frames: &impl FrameSource, place: Place, units: usize) {
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
