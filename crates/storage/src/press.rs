//! Our own.
#![forbid(unsafe_op_in_unsafe_fn)]

mod block;
mod compaction;
mod holes;
mod placement;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use coldpress_arena::{ChunkSource, Zeroable};

use crate::access::read_link;
use crate::compressed_storage::{Compaction, CompressedStorage, Usage};
use crate::frame::{FRAME_BYTES, FrameIndex, FrameSource};
use crate::frame_table::FrameTable;
use crate::reference::Reference;
use block::{
    Blocks, END_UNIT, FIRST_UNIT, FRAME_UNITS, Header, Kind, Place, UNIT_BYTES, units_for,
};
use compaction::{Occupancy, Pass};
use holes::Holes;
pub use placement::Tuning;

/// The longest object that shares a frame; longer ones have one for themselves, without blocks.
const LONGEST_SHARED: usize = FRAME_UNITS * UNIT_BYTES - 2;

/// The slot of references to objects that have a frame for themselves.
const ALONE: u8 = 1;

/// What is known of one frame, 4 bytes: units in use, and flags. 0: not held.
#[repr(transparent)]
struct Record(AtomicU32);

// SAFETY: an atomic; zero is a frame that is not held.
unsafe impl Zeroable for Record {}

#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
struct State {
    /// Units of blocks with objects in them.
    used: usize,
    /// Compaction is to empty the frame; its holes are on no list.
    marked: bool,
    /// The frame is one object, without blocks.
    alone: bool,
}

impl Record {
    fn state(&self) -> State {
        let bits = self.0.load(Relaxed);
        State {
            used: bits as usize & 0xffff,
            marked: bits >> 16 & 1 == 1,
            alone: bits >> 17 & 1 == 1,
        }
    }

    fn set(&self, state: State) {
        let bits = state.used as u32 | u32::from(state.marked) << 16 | u32::from(state.alone) << 17;
        self.0.store(bits, Relaxed);
    }
}

/// Our own storage: objects whole or in two pieces, in holes of any size.
///
/// About 38 KiB by itself; meant to be a `static`, or part of one.
pub struct Press {
    tuning: Tuning,
    records: FrameTable<Record, 1023>,
    holes: Holes,
    /// Frames with blocks, by units in use.
    occupancy: Occupancy,
    pass: Pass,
    frames: usize,
    objects: usize,
    payload_bytes: usize,
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
            frames: 0,
            objects: 0,
            payload_bytes: 0,
        }
    }

    fn state(&self, frame: u32) -> State {
        self.records.get(frame).state()
    }

    /// Notes what has become of a frame with blocks.
    fn set_state(&mut self, frame: u32, state: State) {
        let record = self.records.get(frame);
        self.occupancy.remove(record.state().used);
        self.occupancy.add(state.used);
        record.set(state);
    }

    /// A frame from the host, one hole, on no list and not counted yet.
    fn begin_frame(&mut self, frames: &impl FrameSource) -> Option<u32> {
        let frame = frames.allocate()?;
        if !self.records.adopt(frame) {
            frames.free(frame);
            return None;
        }
        debug_assert_eq!(self.state(frame.0), State::default(), "P1");
        self.frames += 1;
        // SAFETY: the frame is held from now on, and new: nothing else is in it.
        unsafe { Blocks::of(frames, frame.0) }.set_empty();
        Some(frame.0)
    }

    fn end_frame(&mut self, frames: &impl FrameSource, frame: u32) {
        let record = self.records.get(frame);
        if record.state().marked {
            self.pass.marked -= 1;
        }
        record.set(State::default());
        self.frames -= 1;
        frames.free(FrameIndex(frame));
    }

    /// Takes the front of a hole that is on no list for a block; what remains is a hole again.
    fn carve(&mut self, frames: &impl FrameSource, hole: (usize, Place), kind: Kind, len: usize) {
        let ((hole_units, place), units) = (hole, units_for(kind, len));
        let (unit, remain) = (place.unit(), hole_units - units);
        // SAFETY: P1: the frame is held; the place is that of a hole, which nobody else uses.
        let blocks = unsafe { Blocks::of(frames, place.frame) };
        debug_assert_eq!(
            blocks.header(unit),
            Header::new(Kind::Hole, hole_units),
            "K2"
        );
        blocks.set_header(unit, Header::new(kind, len));
        if remain == 0 {
            blocks.set_follows_hole(unit + units, false);
        } else {
            blocks.set_hole(unit + units, remain);
            let rest = Place::new(place.frame, unit + units);
            // SAFETY: P1, P2: frames of holes listed are held; this one was just made.
            unsafe { self.holes.insert(frames, rest, remain) };
        }
        let state = self.state(place.frame);
        debug_assert!(!state.marked && !state.alone, "P2");
        self.set_state(
            place.frame,
            State {
                used: state.used + units,
                ..state
            },
        );
    }

    /// Turns a block into a hole, or a part of one, and returns the frame if it is empty then.
    fn release(&mut self, frames: &impl FrameSource, place: Place) {
        let state = self.state(place.frame);
        // SAFETY: P1: the frame is held; the caller made sure that there is a block (P3).
        let blocks = unsafe { Blocks::of(frames, place.frame) };
        let header = blocks.header(place.unit());
        let (mut start, freed) = (place.unit(), header.units());
        let (mut units, behind) = (freed, start + freed);
        // SAFETY (both): P2: neighbours that are holes are on lists unless the frame is marked.
        if header.follows_hole {
            let before = blocks.hole_before(start);
            // Whoever frees this object again is to find that there is none.
            blocks.set_header(start, Header::new(Kind::Hole, units));
            (start, units) = (start - before, units + before);
            if !state.marked {
                unsafe {
                    self.holes
                        .remove(frames, Place::new(place.frame, start), before)
                };
            }
        }
        let next = blocks.header(behind);
        if next.kind == Kind::Hole {
            if !state.marked {
                let hole = Place::new(place.frame, behind);
                unsafe { self.holes.remove(frames, hole, next.value) };
            }
            units += next.value;
        }
        let used = state.used - freed;
        if used == 0 {
            debug_assert_eq!((start, units), (FIRST_UNIT, FRAME_UNITS), "K1");
            self.occupancy.remove(state.used);
            self.end_frame(frames, place.frame);
            return;
        }
        blocks.set_hole(start, units);
        if !state.marked {
            let hole = Place::new(place.frame, start);
            // SAFETY: P2: the hole was just made, in a frame that is held and not marked.
            unsafe { self.holes.insert(frames, hole, units) };
        }
        self.set_state(place.frame, State { used, ..state });
    }

    /// The blocks of an object: that of its only or first part, and that of the rest.
    ///
    /// # Panics
    /// If there is no such object, as far as can be told: its headers, its link and the way back
    /// must agree with the reference.
    fn blocks_of(&self, frames: &impl FrameSource, reference: Reference) -> (Place, Option<Place>) {
        let find = |frame: FrameIndex| {
            let state = self.records.find(frame).map(Record::state);
            state
                .filter(|state| state.used != 0)
                .expect("no such frame is held")
        };
        let place = Place::new(reference.frame().0, reference.offset() / UNIT_BYTES);
        let state = find(reference.frame());
        let (slot, len) = (usize::from(state.alone), reference.len());
        assert!(
            slot == usize::from(reference.slot()) && (state.alone || place.unit() >= FIRST_UNIT),
            "no such object is stored"
        );
        if state.alone {
            let alone = reference.offset() == 0 && len > LONGEST_SHARED && !reference.is_split();
            assert!(alone, "no such object is stored");
            return (place, None);
        }
        let expect = |place: Place, kind, len| {
            // SAFETY: the frame is held, and has blocks. If the reference is forged the unit may
            // be none of a block's, and bytes of an object be read; which another thread
            // writes only before it has published its reference.
            let header = unsafe { Blocks::of(frames, place.frame) }.header(place.unit());
            let found = (header.kind, header.value) == (kind, len)
                && place.unit() + header.units() <= END_UNIT;
            assert!(found, "no such object is stored");
        };
        if !reference.is_split() {
            expect(place, Kind::Whole, len);
            return (place, None);
        }
        // SAFETY: the frame is held, so the link lies in it, whatever it says.
        let link = unsafe { read_link(frames, reference) }.expect("no such object is stored");
        let rest = Place::new(link.rest_frame.0, link.rest_offset / UNIT_BYTES);
        assert!(
            !find(link.rest_frame).alone && rest.unit() >= FIRST_UNIT,
            "no such object is stored"
        );
        expect(place, Kind::Head, len - link.rest_len);
        expect(rest, Kind::Rest, link.rest_len);
        // SAFETY: as above; the block lies inside its frame.
        let blocks = unsafe { Blocks::of(frames, rest.frame) };
        let head = blocks.head_of(rest.unit(), units_for(Kind::Rest, link.rest_len));
        assert!(head == place, "no such object is stored");
        (place, Some(rest))
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
        let reference = if len > LONGEST_SHARED {
            let frame = self.begin_frame(frames)?;
            self.records.get(frame).set(State {
                used: FRAME_UNITS,
                alone: true,
                marked: false,
            });
            Reference::new(FrameIndex(frame), 0, len, ALONE)
        } else {
            self.place(frames, len, true)?
        };
        self.objects += 1;
        self.payload_bytes += len;
        Some(reference)
    }

    fn free(&mut self, frames: &impl FrameSource, reference: Reference) {
        let (place, rest) = self.blocks_of(frames, reference);
        self.objects -= 1;
        self.payload_bytes -= reference.len();
        if reference.slot() == ALONE {
            self.end_frame(frames, place.frame);
            return;
        }
        if let Some(rest) = rest {
            self.release(frames, rest);
        }
        self.release(frames, place);
    }

    fn usage(&self) -> Usage {
        let storage_bytes = self.frames * FRAME_BYTES;
        Usage {
            storage_bytes,
            payload_bytes: self.payload_bytes,
            fragmentation_bytes: storage_bytes - self.payload_bytes,
            metadata_bytes: self.records.touched_bytes(),
            objects: self.objects,
        }
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
        self.records.check_invariants();
        let mut occupancy = Occupancy::new();
        let (mut held, mut marked) = (0, 0);
        for (_, record) in self.records.iter() {
            let state = record.state();
            held += usize::from(state.used != 0);
            marked += u32::from(state.marked);
            assert!(
                state.used <= FRAME_UNITS && !(state.alone && state.marked),
                "P1"
            );
            if state.used != 0 && !state.alone {
                occupancy.add(state.used);
            }
        }
        assert_eq!(held, self.frames, "P4");
        assert_eq!(marked, self.pass.marked, "P4");
        assert_eq!(occupancy, self.occupancy, "P4");
    }

    fn check_frames(&self, frames: &impl FrameSource) {
        let (mut objects, mut payload, mut holes, mut units) = (0, 0, 0, 0);
        for (frame, record) in self.records.iter() {
            let state = record.state();
            if state.used == 0 {
                continue;
            }
            if state.alone {
                objects += 1;
                continue;
            }
            // SAFETY: P1: the frame is held, and has blocks.
            let blocks = unsafe { Blocks::of(frames, frame) };
            let (mut used, mut after_hole) = (0, false);
            blocks.for_each(|unit, header| {
                assert_eq!(header.follows_hole, after_hole, "K2: frame {frame}");
                after_hole = header.kind == Kind::Hole;
                if after_hole {
                    assert!(!header.follows_hole, "K2: frame {frame}");
                    assert_eq!(blocks.hole_before(unit + header.value), header.value, "K2");
                    if !state.marked && header.value >= block::LISTED_UNITS {
                        holes += 1;
                        units += header.value;
                    }
                    return;
                }
                used += header.units();
                payload += header.value;
                match header.kind {
                    Kind::Rest => {
                        let head = blocks.head_of(unit, header.units());
                        let object = self.object_at(frames, Place::new(frame, unit), header);
                        assert_eq!(object.frame().0, head.frame, "K3");
                    }
                    _ => {
                        objects += 1;
                        let object = self.object_at(frames, Place::new(frame, unit), header);
                        self.blocks_of(frames, object);
                    }
                }
            });
            assert_eq!(blocks.header(END_UNIT).follows_hole, after_hole, "K2");
            assert_eq!(used, state.used, "P3: frame {frame}");
        }
        assert_eq!(objects, self.objects, "P4");
        assert!(payload <= self.payload_bytes, "P4");
        let mut listed = 0;
        // SAFETY: P2: frames of holes listed are held.
        unsafe {
            self.holes.check_invariants(frames, holes, |place| {
                listed += 1;
                assert!(!self.state(place.frame).marked, "P2");
            });
        }
        assert_eq!(
            (listed, self.holes.units()),
            (holes, units),
            "P2: a hole is on no list"
        );
    }
}
