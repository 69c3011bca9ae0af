//! Our own storage: objects whole or in two pieces, in holes of any size.
//!
//! ```text
//!  Press                                      frames (host): blocks and holes, `press/block.rs`
//!  ┌──────────────────────────────┐
//!  │ holes    a list for each     │ ───────▶  9: │ a     │ b          │ hole  │ c, first part │
//!  │          size of a hole      │                                      ⇅              ╰──╮
//!  │ records  4 bytes a frame:    │ ───────▶  4: │ rest of c ◀──────────────╯│ d    │ hole │
//!  │          units in use, flags │
//!  │ occupancy  frames by fullness│           the lists' links lie in the holes, headers of
//!  │ pass     of compaction       │           two bytes in front of the blocks
//!  └──────────────────────────────┘
//! ```
//!
//! * *Store*: into the hole that fits best, of all frames; if none takes the object whole, in two
//!   pieces; if no two do, the fresh frame takes what the largest hole does not (`placement.rs`).
//!   A list for each size and a bitmap over them make that a few bit scans (`holes.rs`).
//! * *Free*: the block becomes a hole, together with the holes beside it; headers and the
//!   lengths at the holes' ends say where these are. An empty frame goes back at once.
//! * *Compact*: the emptiest frames are emptied into the others (`compaction.rs`, `occupancy.rs`).
//!
//! All in constant time. An object is never moved but by compaction, so readers need no lock; and
//! what is known of a hole lies in the hole, so there is little beside the frames: four bytes a
//! frame. An object that no hole in the world could share a frame with (above 4,086 bytes) has a frame
//! without blocks.
//!
//! S3: storing takes one fresh frame at most, so it never holds more frames than objects. As an
//! object in two pieces keeps two frames from going back, freeing can leave more frames than
//! objects: as many as there are pieces, at most. A pass of compaction mends that.
//!
//! Invariants, besides those of the trait, of blocks (K), holes (B) and compaction (C):
//! * P1 A frame that is held has units in use; its record says how many, and whether it is one
//!   object alone, without blocks. The record of any other frame is 0.
//! * P2 A hole of two units or more is on the list of its size, unless its frame is marked; then
//!   none of the frame's holes is on a list.
//! * P3 There is a block of its kind and length where a reference, a link or the way back from a
//!   rest leads.
//! * P4 The tally (N1) and `occupancy` are the sums over all frames.
//!
//! What it deliberately does not do: pieces are two at most, a look at more than the head of a
//! list, and anything that depends on what objects were stored together.
//!
//! Why so, and what was tried against it: `docs/adr/0012-press-storage.md`.
#![forbid(unsafe_op_in_unsafe_fn)]

mod block;
mod check;
mod compaction;
mod holes;
mod occupancy;
mod placement;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use coldpress_arena::{ChunkSource, Zeroable};

use crate::access::{Link, read_link, read_word};
use crate::compressed_storage::{Compaction, CompressedStorage, Usage};
use crate::frame::{FrameIndex, FrameSource};
use crate::frame_table::FrameTable;
use crate::reference::Reference;
use crate::tally::Tally;
use block::{Blocks, FIRST_UNIT, FRAME_UNITS, Header, Kind, Place, UNIT_BYTES, units_for};
use compaction::Pass;
use holes::{Hole, Holes};
use occupancy::Occupancy;
use placement::Otherwise;
pub use placement::Tuning;

/// The longest object that shares a frame.
const LONGEST_SHARED: usize = FRAME_UNITS * UNIT_BYTES - 2;

/// The slot of references to objects that share their frame, and of those that do not.
const SHARED: u8 = 0;
const ALONE: u8 = 1;

const NO_FRAME: &str = "no such frame is held";
const NO_OBJECT: &str = "no such object is stored";

/// What is known of one frame: a [`State`], in 4 bytes.
#[repr(transparent)]
struct Record(AtomicU32);

// SAFETY: an atomic; zero is a frame that is not held.
unsafe impl Zeroable for Record {}

/// P1.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
struct State {
    /// Units of blocks with objects in them.
    used: usize,
    /// Compaction is to empty the frame (P2).
    marked: bool,
    /// The frame is one object, without blocks.
    alone: bool,
}

const MARKED: u32 = 1 << 16;
const IS_ALONE: u32 = 1 << 17;

impl Record {
    #[inline]
    fn state(&self) -> State {
        let bits = self.0.load(Relaxed);
        State {
            used: usize::from(bits as u16),
            marked: bits & MARKED != 0,
            alone: bits & IS_ALONE != 0,
        }
    }

    #[inline]
    fn set(&self, state: State) {
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let flags = flag(state.marked, MARKED) | flag(state.alone, IS_ALONE);
        self.0.store(state.used as u32 | flags, Relaxed);
    }
}

/// Our own storage: objects whole or in two pieces, in holes of any size.
///
/// About 38 KiB by itself; meant to be a `static`, or part of one.
pub struct Press {
    tuning: Tuning,
    /// By frame index (P1).
    records: FrameTable<Record, 1023>,
    holes: Holes,
    occupancy: Occupancy,
    pass: Pass,
    tally: Tally,
}

impl Default for Press {
    fn default() -> Self {
        Self::new()
    }
}

impl Press {
    /// Storage that holds nothing, and has no tables yet.
    pub const fn new() -> Self {
        Self::tuned(Tuning::DEFAULT)
    }

    /// The same with other parameters, for measuring what they do.
    pub const fn tuned(tuning: Tuning) -> Self {
        Self {
            tuning,
            records: FrameTable::new(),
            holes: Holes::new(),
            occupancy: Occupancy::new(),
            pass: Pass::new(),
            tally: Tally::new(),
        }
    }

    #[inline]
    fn state(&self, frame: u32) -> State {
        self.records.get(frame).state()
    }

    /// A frame from the host: one hole, on no list. Something is put in it at once (P1).
    fn begin_frame(&mut self, frames: &impl FrameSource) -> Option<u32> {
        let frame = self.records.borrow_frame(frames)?;
        debug_assert_eq!(self.state(frame.0), State::default(), "P1");
        self.tally.frames += 1;
        // SAFETY: the frame is held from now on, and nothing is in it.
        unsafe { Blocks::of(frames, frame.0) }.set_empty();
        Some(frame.0)
    }

    /// Gives a frame back, in which nothing is.
    fn end_frame(&mut self, frames: &impl FrameSource, frame: u32) {
        let record = self.records.get(frame);
        if record.state().marked {
            self.pass.marked -= 1;
        }
        record.set(State::default());
        self.tally.frames -= 1;
        frames.free(FrameIndex(frame));
    }

    /// Makes a block at the front of a hole that is on no list; what remains is a hole again.
    fn carve(&mut self, frames: &impl FrameSource, hole: Hole, kind: Kind, len: usize) {
        let Hole { units, place } = hole;
        let (unit, taken) = (place.unit(), units_for(kind, len));
        // SAFETY: P1: the frame is held; there is a hole, which nobody else uses.
        let blocks = unsafe { Blocks::of(frames, place.frame) };
        debug_assert_eq!(blocks.header(unit), Header::new(Kind::Hole, units), "K2");
        blocks.set_header(unit, Header::new(kind, len));
        if taken == units {
            blocks.set_follows_hole(unit + taken, false);
        } else {
            blocks.set_hole(unit + taken, units - taken);
            let remains = Hole {
                units: units - taken,
                place: Place::new(place.frame, unit + taken),
            };
            // SAFETY: P2: the hole was just made, in a frame that is held and not marked.
            unsafe { self.holes.insert(frames, remains) };
        }
        let state = self.state(place.frame);
        debug_assert!(!state.marked && !state.alone, "P2");
        let used = state.used + taken;
        if state.used != 0 {
            self.occupancy.remove(state.used);
        }
        self.occupancy.add(used);
        self.records.get(place.frame).set(State { used, ..state });
    }

    /// Makes `block` a hole, with the holes beside it; gives the frame back if that is all.
    fn release(&mut self, frames: &impl FrameSource, block: Hole) {
        let Hole {
            units: freed,
            place,
        } = block;
        let state = self.state(place.frame);
        // SAFETY: P1: the frame is held; P3: there is a block, as the caller has made sure.
        let blocks = unsafe { Blocks::of(frames, place.frame) };
        let behind = place.unit() + freed;
        let (header, next) = (blocks.header(place.unit()), blocks.header(behind));
        debug_assert_eq!(header.units(), freed);
        let hole_at = |unit, units| Hole {
            units,
            place: Place::new(place.frame, unit),
        };
        let mut hole = block;
        if header.follows_hole {
            // Whoever frees this object again is to find that there is none.
            blocks.set_header(place.unit(), Header::new(Kind::Hole, freed));
            let before = blocks.hole_before(place.unit());
            hole = hole_at(place.unit() - before, freed + before);
            if !state.marked {
                // SAFETY: P2: a hole of a frame that is not marked is listed.
                unsafe {
                    self.holes
                        .remove(frames, hole_at(hole.place.unit(), before))
                };
            }
        }
        if next.kind == Kind::Hole {
            hole.units += next.value;
            if !state.marked {
                // SAFETY: P2: as above.
                unsafe { self.holes.remove(frames, hole_at(behind, next.value)) };
            }
        }
        self.occupancy.remove(state.used);
        let used = state.used - freed;
        if used == 0 {
            debug_assert_eq!(hole, hole_at(FIRST_UNIT, FRAME_UNITS), "K1");
            self.end_frame(frames, place.frame);
            return;
        }
        blocks.set_hole(hole.place.unit(), hole.units);
        if !state.marked {
            // SAFETY: P2: the hole was just made, in a frame that is held and not marked.
            unsafe { self.holes.insert(frames, hole) };
        }
        self.occupancy.add(used);
        self.records.get(place.frame).set(State { used, ..state });
    }

    /// The state of a frame that a reference or a link names.
    ///
    /// # Panics
    /// If the frame is not held.
    #[inline]
    fn state_of_held(&self, frame: FrameIndex) -> State {
        let state = self.records.find(frame).map(Record::state);
        state.filter(|state| state.used != 0).expect(NO_FRAME)
    }

    /// The block of this kind and length at `place`, as a hole that it could become.
    ///
    /// # Panics
    /// If there is none, as far as can be told.
    fn expect_block(
        &self,
        frames: &impl FrameSource,
        place: Place,
        kind: Kind,
        len: usize,
    ) -> Hole {
        let (unit, units) = (place.unit(), units_for(kind, len));
        assert!(
            !self.state_of_held(FrameIndex(place.frame)).alone && block::is_inside(unit, units),
            "{NO_OBJECT}"
        );
        // SAFETY: P1: the frame is held, and has blocks. If the reference is forged there may be
        // an object's bytes instead of a header; they are read, and believed if they look like one.
        let blocks = unsafe { Blocks::of(frames, place.frame) };
        // Looked at when the block is released. It is known from the reference where that is, so
        // it need not wait for the header here, which is as cold.
        blocks.prefetch(unit + units);
        let header = blocks.header(unit);
        let is_block = header.kind == kind && header.value == len;
        assert!(is_block, "{NO_OBJECT}");
        Hole { units, place }
    }

    /// Place and length of the block of a whole object, or of the two of a split one.
    ///
    /// # Panics
    /// If there is no such object, as far as can be told: headers, link and the way back must
    /// agree with the reference.
    fn blocks_of(&self, frames: &impl FrameSource, reference: Reference) -> (Hole, Option<Hole>) {
        let (frame, len) = (reference.frame(), reference.len());
        assert!(reference.slot() == SHARED, "{NO_OBJECT}");
        let first = Place::new(frame.0, reference.offset() / UNIT_BYTES);
        if !reference.is_split() {
            return (self.expect_block(frames, first, Kind::Whole, len), None);
        }
        self.state_of_held(frame);
        // SAFETY: the frame is held, so that eight bytes can be read there, whatever they say.
        let link = unsafe { read_link(frames, reference) }.expect(NO_OBJECT);
        let rest = Place::new(link.rest_frame.0, link.rest_offset / UNIT_BYTES);
        let first = self.expect_block(frames, first, Kind::Head, len - link.rest_len);
        let rest = self.expect_block(frames, rest, Kind::Rest, link.rest_len);
        // SAFETY: P3: there is a block, inside its frame, which is held.
        let blocks = unsafe { Blocks::of(frames, rest.place.frame) };
        let head = blocks.head_of(rest.place.unit(), rest.units);
        assert!(head == first.place, "{NO_OBJECT}");
        (first, Some(rest))
    }

    /// The object of which there is a block at `place`, with this header.
    fn object_at(&self, frames: &impl FrameSource, place: Place, header: Header) -> Reference {
        let frame = FrameIndex(place.frame);
        match header.kind {
            Kind::Hole => unreachable!("there is no object in a hole"),
            Kind::Whole => Reference::new(frame, place.offset(), header.value, SHARED),
            Kind::Head => {
                // SAFETY: P3: behind the header of a head is its link.
                let link = Link::from_word(unsafe { read_word(frames, frame, place.offset()) });
                let len = header.value + link.rest_len;
                Reference::new_split(frame, place.offset(), len, SHARED)
            }
            Kind::Rest => {
                // SAFETY: P3: at the end of a rest is where its head is, in a frame that is held.
                let (head, first) = unsafe {
                    let rest = Blocks::of(frames, place.frame);
                    let head = rest.head_of(place.unit(), header.units());
                    (head, Blocks::of(frames, head.frame).header(head.unit()))
                };
                let len = first.value + header.value;
                Reference::new_split(FrameIndex(head.frame), head.offset(), len, SHARED)
            }
        }
    }
}

impl CompressedStorage for Press {
    const NAME: &'static str = "press";

    fn reserve(&self, source: &impl ChunkSource, count: u32) -> bool {
        // Each allocation opens at most one frame, and frames are numbered densely.
        self.records.reserve(source, count)
    }

    fn allocate(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference> {
        if len == 0 || len > Self::MAX_OBJECT_BYTES {
            return None;
        }
        let reference = if len <= LONGEST_SHARED {
            self.place(frames, len, Otherwise::TakeBackOrBegin)?
        } else {
            let frame = self.begin_frame(frames)?;
            self.records.get(frame).set(State {
                used: FRAME_UNITS,
                marked: false,
                alone: true,
            });
            Reference::new(FrameIndex(frame), 0, len, ALONE)
        };
        self.tally.store(len);
        Some(reference)
    }

    fn free(&mut self, frames: &impl FrameSource, reference: Reference) {
        if self.state_of_held(reference.frame()).alone {
            let whole = (reference.slot(), reference.is_split()) == (ALONE, false);
            assert!(whole && reference.len() > LONGEST_SHARED, "{NO_OBJECT}");
            self.end_frame(frames, reference.frame().0);
        } else {
            let (first, rest) = self.blocks_of(frames, reference);
            if let Some(rest) = rest {
                self.release(frames, rest);
            }
            self.release(frames, first);
        }
        self.tally.free(reference.len());
    }

    fn usage(&self) -> Usage {
        self.tally.usage(self.records.touched_bytes())
    }

    fn compact(
        &mut self,
        frames: &impl FrameSource,
        budget_bytes: usize,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> Compaction {
        self.compact_frames(frames, budget_bytes, relocate)
    }

    fn check_invariants(&self) {
        self.check_tables();
    }

    fn check_frames(&self, frames: &impl FrameSource) {
        self.check_blocks(frames);
    }
}
