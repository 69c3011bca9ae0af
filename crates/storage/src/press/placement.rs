//! Where an object goes.
#![forbid(unsafe_op_in_unsafe_fn)]

use super::Press;
use super::block::{
    Blocks, FIRST_UNIT, FRAME_UNITS, HEAD_OVERHEAD, Header, Kind, LISTED_UNITS, Place,
    REST_OVERHEAD, UNIT_BYTES, units_for,
};
use crate::access::{Link, write_link};
use crate::frame::{FrameIndex, FrameSource};
use crate::reference::Reference;

/// Parameters of placement.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Tuning {
    /// Whether objects may be split.
    pub split: bool,
    /// The smallest hole, in units of 8 bytes, that takes a piece of a split object.
    pub minimum_piece_units: usize,
    /// eat
    pub eat: usize,
    /// eat max
    pub eat_below: usize,
}

impl Tuning {
    /// What is used.
    pub const DEFAULT: Self = Self {
        split: true,
        minimum_piece_units: 8,
        eat: 0,
        eat_below: 64,
    };
}

impl Press {
    /// Finds a place for an object that can share a frame, and makes its blocks.
    pub(super) fn place(
        &mut self,
        frames: &impl FrameSource,
        len: usize,
        may_begin_frame: bool,
    ) -> Option<Reference> {
        let tuning = self.tuning;
        let units = units_for(Kind::Whole, len);
        let best = self.holes.best(units);
        // Eat small leftovers while there is too much of them.
        if let Some((found, _)) = best {
            let wasteful = found != units;
            if !(wasteful
                && tuning.eat != 0
                && tuning.split
                && self.holes.units() * tuning.eat > self.frames * FRAME_UNITS)
            {
                return Some(self.place_whole(frames, best?, len));
            }
            let small = self.holes.largest(tuning.eat_below.min(units - 1));
            if let Some(head) = small.filter(|(u, _)| *u >= tuning.minimum_piece_units)
                && let Some(reference) = self.place_split(frames, head, len)
            {
                return Some(reference);
            }
            return Some(self.place_whole(frames, best?, len));
        }
        let largest = self.holes.largest(units - 1);
        let head = largest.filter(|(u, _)| tuning.split && *u >= tuning.minimum_piece_units);
        if let Some(head) = head {
            if let Some(reference) = self.place_split(frames, head, len) {
                return Some(reference);
            }
        }
        if !may_begin_frame {
            return None;
        }
        let frame = self.begin_frame(frames)?;
        self.occupancy.add(0);
        let fresh = (FRAME_UNITS, Place::new(frame, FIRST_UNIT));
        let Some(head) = head else {
            return Some(self.carve_whole(frames, fresh, len));
        };
        let (first_len, rest_len) = self.divide(head.0, len);
        // SAFETY: P2.
        unsafe { self.holes.remove(frames, head.1, head.0) };
        Some(self.carve_split(frames, head, fresh, first_len, rest_len))
    }

    /// How many bytes go in the head piece.
    fn divide(&self, head_units: usize, len: usize) -> (usize, usize) {
        let least_rest =
            (self.tuning.minimum_piece_units * UNIT_BYTES - REST_OVERHEAD).min(len / 2);
        let first = (head_units * UNIT_BYTES - HEAD_OVERHEAD).min(len - least_rest);
        (first, len - first)
    }

    fn place_split(
        &mut self,
        frames: &impl FrameSource,
        head: (usize, Place),
        len: usize,
    ) -> Option<Reference> {
        let (first_len, rest_len) = self.divide(head.0, len);
        // The head's hole must not be found for the rest.
        // SAFETY: P2.
        unsafe { self.holes.remove(frames, head.1, head.0) };
        let Some(rest) = self.holes.best(units_for(Kind::Rest, rest_len)) else {
            // SAFETY: P2.
            unsafe { self.holes.insert(frames, head.1, head.0) };
            return None;
        };
        // SAFETY: P2.
        unsafe { self.holes.remove(frames, rest.1, rest.0) };
        Some(self.carve_split(frames, head, rest, first_len, rest_len))
    }

    fn carve_split(
        &mut self,
        frames: &impl FrameSource,
        head: (usize, Place),
        rest: (usize, Place),
        first_len: usize,
        rest_len: usize,
    ) -> Reference {
        self.carve(frames, head, Kind::Head, first_len);
        self.carve(frames, rest, Kind::Rest, rest_len);
        let (head, rest) = (head.1, rest.1);
        let reference = Reference::new_split(
            FrameIndex(head.frame),
            head.offset(),
            first_len + rest_len,
            0,
        );
        let link = Link {
            rest_frame: FrameIndex(rest.frame),
            rest_offset: rest.offset(),
            rest_len,
        };
        // SAFETY: the blocks were just made.
        unsafe { write_link(frames, reference, link) };
        let blocks = unsafe { Blocks::of(frames, rest.frame) };
        blocks.set_head_of(rest.unit(), units_for(Kind::Rest, rest_len), head);
        reference
    }

    fn place_whole(
        &mut self,
        frames: &impl FrameSource,
        hole: (usize, Place),
        len: usize,
    ) -> Reference {
        // SAFETY: P2.
        unsafe { self.holes.remove(frames, hole.1, hole.0) };
        self.carve_whole(frames, hole, len)
    }

    fn carve_whole(
        &mut self,
        frames: &impl FrameSource,
        hole: (usize, Place),
        len: usize,
    ) -> Reference {
        self.carve(frames, hole, Kind::Whole, len);
        Reference::new(FrameIndex(hole.1.frame), hole.1.offset(), len, 0)
    }

    /// The object of which there is a block at `place`, with this header.
    pub(super) fn object_at(
        &self,
        frames: &impl FrameSource,
        place: Place,
        header: Header,
    ) -> Reference {
        match header.kind {
            Kind::Hole => unreachable!("no object is in a hole"),
            Kind::Whole => Reference::new(FrameIndex(place.frame), place.offset(), header.value, 0),
            Kind::Head => {
                // SAFETY: P3: a head's link lies behind its header.
                let word = unsafe {
                    crate::access::read_word(frames, FrameIndex(place.frame), place.offset())
                };
                let len = header.value + Link::from_word(word).rest_len;
                Reference::new_split(FrameIndex(place.frame), place.offset(), len, 0)
            }
            Kind::Rest => {
                let head = unsafe { Blocks::of(frames, place.frame) }
                    .head_of(place.unit(), header.units());
                let first = unsafe { Blocks::of(frames, head.frame) }.header(head.unit());
                self.object_at(frames, head, first)
            }
        }
    }
}
