//! Where an object goes: whole into the hole that fits best, else in two pieces.
//!
//! ```text
//!  1  a hole takes it whole:        the smallest that does, at its front
//!  2  two holes take it:            the largest is filled by the first part,
//!                                   the smallest that takes the rest has the rest
//!  3  none do:                      a fresh frame. The largest hole is filled by the first part
//!                                   all the same, and the fresh frame has the rest
//! ```
//!
//! By the third rule frames are filled to the brim as they come: an object that reaches the end
//! of a frame goes on in the next. Splitting comes last, since a split object costs 16 bytes and
//! its reader a copy. Each rule is one look at the lists of holes: there is no search.
//!
//! A store that finds no hole while a pass of [compaction](super::compaction) is under way takes
//! a frame back from it before it asks the host for one.
#![forbid(unsafe_op_in_unsafe_fn)]

use super::Press;
use super::block::{
    Blocks, FIRST_UNIT, FRAME_UNITS, HEAD_OVERHEAD, Kind, Place, REST_OVERHEAD, UNIT_BYTES,
    units_for,
};
use super::holes::Hole;
use crate::access::{Link, write_link};
use crate::frame::{FrameIndex, FrameSource};
use crate::reference::Reference;

/// Parameters of placement.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Tuning {
    /// Whether objects may be split.
    pub split: bool,
    /// The smallest piece of a split object, with its block's header, in bytes: what a hole must
    /// have to take one. A piece costs its reader a cache miss and 8 bytes in the frame, so a few
    /// bytes are not worth one; but what is smaller stays a hole.
    pub minimum_piece_bytes: usize,
}

impl Tuning {
    /// What is used. Pieces of at least 32, 64 or 128 bytes differ by less than 0.2 % in density
    /// (`cargo run --release -p coldpress-storage --example density -- --variants`).
    pub const DEFAULT: Self = Self {
        split: true,
        minimum_piece_bytes: 64,
    };

    fn minimum_piece_units(self) -> usize {
        self.minimum_piece_bytes.div_ceil(UNIT_BYTES)
    }
}

/// What may be done for an object's sake where no hole takes it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Otherwise {
    /// For a store: take a frame back from compaction, then a fresh one.
    TakeBackOrBegin,
    /// For an object that is moved: a fresh frame.
    Begin,
    /// For an object that is moved: nothing.
    Nothing,
}

/// Times that a store takes a frame back before it asks for a fresh one.
const TAKEN_BACK: usize = 2;

impl Press {
    /// Finds a place for an object that can share a frame, and makes its blocks.
    pub(super) fn place(
        &mut self,
        frames: &impl FrameSource,
        len: usize,
        otherwise: Otherwise,
    ) -> Option<Reference> {
        let in_holes = self.place_in_holes(frames, len);
        if in_holes.is_some() || otherwise == Otherwise::Nothing {
            return in_holes;
        }
        if otherwise == Otherwise::TakeBackOrBegin {
            for _ in 0..TAKEN_BACK {
                if !self.take_back(frames) {
                    break;
                }
                let in_holes = self.place_in_holes(frames, len);
                if in_holes.is_some() {
                    return in_holes;
                }
            }
        }
        let fresh = Hole {
            units: FRAME_UNITS,
            place: Place::new(self.begin_frame(frames)?, FIRST_UNIT),
        };
        let Some(largest) = self.hole_for_first_part(len) else {
            return Some(self.carve_whole(frames, fresh, len));
        };
        // SAFETY: P2: it is listed.
        unsafe { self.holes.remove(frames, largest) };
        Some(self.carve_split(frames, largest, fresh, len))
    }

    /// Rules 1 and 2.
    fn place_in_holes(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference> {
        if let Some(hole) = self.holes.smallest(units_for(Kind::Whole, len)) {
            // SAFETY: P2: it is listed.
            unsafe { self.holes.remove(frames, hole) };
            return Some(self.carve_whole(frames, hole, len));
        }
        let first = self.hole_for_first_part(len)?;
        let rest_units = units_for(Kind::Rest, len - self.first_part(first, len));
        // Off its list before the other is looked for, which must be another one.
        // SAFETY: P2: it is listed.
        unsafe { self.holes.remove(frames, first) };
        let Some(rest) = self.holes.smallest(rest_units) else {
            // SAFETY: P2: it was listed, and nothing has changed.
            unsafe { self.holes.insert(frames, first) };
            return None;
        };
        // SAFETY: P2: it is listed.
        unsafe { self.holes.remove(frames, rest) };
        Some(self.carve_split(frames, first, rest, len))
    }

    /// The largest hole, if an object that is too long for it can be begun there. Pieces are not
    /// empty, so short objects are never split.
    fn hole_for_first_part(&self, len: usize) -> Option<Hole> {
        let minimum = self.tuning.minimum_piece_units();
        let shortest = 2 * minimum * UNIT_BYTES;
        if !self.tuning.split || len < shortest {
            return None;
        }
        let largest = self.holes.largest();
        largest.filter(|hole| hole.units >= minimum)
    }

    /// Bytes of an object that are put in a hole too small for all of it: as many as there is
    /// room for, but for a piece of the smallest size.
    fn first_part(&self, hole: Hole, len: usize) -> usize {
        let smallest_rest = self.tuning.minimum_piece_units() * UNIT_BYTES - REST_OVERHEAD;
        (hole.units * UNIT_BYTES - HEAD_OVERHEAD).min(len - smallest_rest)
    }

    fn carve_whole(&mut self, frames: &impl FrameSource, hole: Hole, len: usize) -> Reference {
        self.carve(frames, hole, Kind::Whole, len);
        let place = hole.place;
        Reference::new(FrameIndex(place.frame), place.offset(), len, 0)
    }

    /// Puts an object in two holes that are on no list, and links the parts (K3).
    fn carve_split(
        &mut self,
        frames: &impl FrameSource,
        first: Hole,
        rest: Hole,
        len: usize,
    ) -> Reference {
        let first_len = self.first_part(first, len);
        let rest_len = len - first_len;
        self.carve(frames, first, Kind::Head, first_len);
        self.carve(frames, rest, Kind::Rest, rest_len);
        let (first, rest) = (first.place, rest.place);
        let reference = Reference::new_split(FrameIndex(first.frame), first.offset(), len, 0);
        let link = Link {
            rest_frame: FrameIndex(rest.frame),
            rest_offset: rest.offset(),
            rest_len,
        };
        // SAFETY: P1: both frames are held, and there are blocks at both places, just made, of
        // which nobody knows yet.
        unsafe {
            write_link(frames, reference, link);
            let blocks = Blocks::of(frames, rest.frame);
            blocks.set_head_of(rest.unit(), units_for(Kind::Rest, rest_len), first);
        }
        reference
    }
}
