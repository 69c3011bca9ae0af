//! Compaction: the emptiest frames are emptied into the holes of the others.
//!
//! ```text
//!  idle ──worth while──▶ marking ──────────────▶ evacuating ──────────────▶ idle, the pass is over
//!                        frame by frame: is it   frame by frame, object by object:
//!                        a victim? its holes     place, copy, ask, free;
//!                        off the lists           what stays: holes back on the lists
//! ```
//!
//! Which frames are victims follows from [how full](super::occupancy) frames are. Marking takes
//! their holes off the lists first, so that no object is moved into a frame that is to be
//! emptied, and none is moved twice. Then each victim is looked at once. The holes of a victim
//! that could not be emptied, since an object may not move or found no place, go back.
//!
//! An object that finds no hole goes to a fresh frame, if more victims follow and the pass has
//! given back all frames that it has taken: so a pass is never in debt by more than one frame,
//! and the fresh frame is filled by what follows.
//!
//! A call stops when its budget is used up, and the next one goes on. Looking at a record, marking
//! a frame and moving an object are charged besides the bytes copied, by what they take in
//! time. Objects may be stored and freed between two calls. A store that finds no hole
//! [takes back](Press::take_back) the last of the frames marked, so that a pass that nobody goes
//! on with keeps no room from anybody.
//!
//! Invariants, besides P2:
//! * C1 While marking, all frames marked lie before `frame`; while evacuating, from `frame` on
//!   and before `end`. Idle, none is marked.
//! * C2 `marked` frames are marked.
#![forbid(unsafe_op_in_unsafe_fn)]

use super::block::{Blocks, Kind, Place};
use super::holes::Hole;
use super::occupancy::Victims;
use super::placement::Otherwise;
use super::{Press, State};
use crate::access::copy;
use crate::compressed_storage::{Compaction, CompressedStorage};
use crate::frame::{FrameIndex, FrameSource};
use crate::reference::Reference;

/// What is charged to the budget for looking at a record, in bytes.
const LOOK_BYTES: usize = 4;
/// What is charged for marking a frame.
const MARK_BYTES: usize = 512;
/// What is charged for moving an object, besides its bytes: two changes of blocks in cold frames.
const MOVE_BYTES: usize = 256;

/// Pages of the table that are passed over in one go, where other storages' frames lie.
const PASSED_OVER: u32 = 64;

/// Records that a store looks at to find a frame to take back.
const LOOKED_AT: u32 = 64;

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Phase {
    Idle,
    Marking,
    Evacuating,
}

/// A pass under way.
pub(super) struct Pass {
    phase: Phase,
    victims: Victims,
    /// The frame to look at next, or that is being emptied.
    frame: u32,
    /// The objects of `frame` before this unit have been looked at.
    unit: usize,
    /// C1.
    end: u32,
    /// C2.
    pub(super) marked: u32,
    /// Frames taken from the host by this pass, and given back.
    taken: usize,
    given_back: usize,
}

impl Pass {
    pub(super) const fn new() -> Self {
        Self {
            phase: Phase::Idle,
            victims: Victims::NONE,
            frame: 0,
            unit: 0,
            end: 0,
            marked: 0,
            taken: 0,
            given_back: 0,
        }
    }

    /// Whether C1 lets a frame be marked.
    pub(super) fn may_be_marked(&self, frame: u32) -> bool {
        match self.phase {
            Phase::Idle => false,
            Phase::Marking => frame < self.frame,
            Phase::Evacuating => (self.frame..self.end).contains(&frame),
        }
    }
}

/// One call: its budget, and what it has done.
struct Call {
    budget_bytes: usize,
    spent_bytes: usize,
    copied: bool,
    done: Compaction,
}

impl Call {
    fn charge(&mut self, bytes: usize) {
        self.spent_bytes = self.spent_bytes.saturating_add(bytes);
    }

    fn is_over(&self) -> bool {
        self.spent_bytes >= self.budget_bytes
    }

    /// Whether an object may be moved still; the first always may.
    fn may_copy(&self, len: usize) -> bool {
        !self.copied || self.spent_bytes.saturating_add(len) <= self.budget_bytes
    }
}

impl Press {
    pub(super) fn compact_frames(
        &mut self,
        frames: &impl FrameSource,
        budget_bytes: usize,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> Compaction {
        let mut call = Call {
            budget_bytes,
            spent_bytes: 0,
            copied: false,
            done: Compaction::default(),
        };
        while !call.done.pass_ended {
            let goes_on = match self.pass.phase {
                Phase::Idle => {
                    call.done.pass_ended = !self.begin_pass();
                    true
                }
                Phase::Marking => self.mark_next(frames, &mut call),
                Phase::Evacuating => self.evacuate_next(frames, &mut call, relocate),
            };
            if !goes_on || call.is_over() {
                break;
            }
        }
        call.done
    }

    /// Begins a pass, if one is worth while.
    fn begin_pass(&mut self) -> bool {
        let Some(victims) = self.occupancy.victims() else {
            return false;
        };
        self.pass = Pass {
            phase: Phase::Marking,
            victims,
            frame: 1,
            ..Pass::new()
        };
        true
    }

    /// The next frame to look at, from `pass.frame` on. It may be one that is not held.
    fn next_frame(&self) -> Option<(u32, State)> {
        let frame = self.records.next_touched(self.pass.frame, PASSED_OVER)?;
        let record = self.records.find(FrameIndex(frame));
        Some((frame, record.map_or(State::default(), |r| r.state())))
    }

    /// Looks at one frame, and marks it if it is a victim.
    fn mark_next(&mut self, frames: &impl FrameSource, call: &mut Call) -> bool {
        let Some((frame, state)) = self.next_frame() else {
            self.begin_evacuating();
            return true;
        };
        call.charge(LOOK_BYTES);
        self.pass.frame = frame + 1;
        if state.used != 0 && !state.alone && self.pass.victims.take(state.used) {
            call.charge(MARK_BYTES);
            self.for_each_hole(frames, frame, |press, hole| {
                // SAFETY: P2: the frame was not marked, so its holes are listed.
                unsafe { press.holes.remove(frames, hole) };
            });
            self.records.get(frame).set(State {
                marked: true,
                ..state
            });
            self.pass.marked += 1;
        }
        true
    }

    fn begin_evacuating(&mut self) {
        self.pass.phase = Phase::Evacuating;
        self.pass.end = self.pass.frame;
        (self.pass.frame, self.pass.unit) = (1, 0);
    }

    /// Looks at one frame, and empties it if it is marked. `false`: the budget is used up.
    fn evacuate_next(
        &mut self,
        frames: &impl FrameSource,
        call: &mut Call,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> bool {
        let next = self
            .next_frame()
            .filter(|(frame, _)| *frame < self.pass.end);
        let Some((frame, state)) = next.filter(|_| self.pass.marked != 0) else {
            debug_assert_eq!(self.pass.marked, 0, "C1");
            self.pass = Pass::new();
            call.done.pass_ended = true;
            return true;
        };
        call.charge(LOOK_BYTES);
        if frame != self.pass.frame {
            (self.pass.frame, self.pass.unit) = (frame, 0);
        }
        if state.marked {
            if !self.evacuate(frames, frame, call, relocate) {
                return false;
            }
            self.unmark(frames, frame);
        }
        (self.pass.frame, self.pass.unit) = (frame + 1, 0);
        true
    }

    /// Moves what is in a marked frame elsewhere. `false`: the budget is used up.
    fn evacuate(
        &mut self,
        frames: &impl FrameSource,
        frame: u32,
        call: &mut Call,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> bool {
        // The frame is marked until it is empty and goes back.
        while self.state(frame).marked {
            // SAFETY: P1: a marked frame is held, and has blocks.
            let blocks = unsafe { Blocks::of(frames, frame) };
            let Some((unit, header)) = blocks.next_object(self.pass.unit) else {
                return true;
            };
            let from = self.object_at(frames, Place::new(frame, unit), header);
            if !call.may_copy(from.len() + MOVE_BYTES) {
                return false;
            }
            self.pass.unit = unit + header.units();
            self.relocate(frames, from, call, relocate);
        }
        true
    }

    /// Moves one object, if there is a place for it and it may be moved.
    fn relocate(
        &mut self,
        frames: &impl FrameSource,
        from: Reference,
        call: &mut Call,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) {
        call.charge(MOVE_BYTES);
        let in_debt = self.pass.taken > self.pass.given_back;
        let otherwise = if in_debt || self.pass.marked < 2 {
            Otherwise::Nothing
        } else {
            Otherwise::Begin
        };
        let before = self.tally.frames;
        let Some(to) = self.place(frames, from.len(), otherwise) else {
            return;
        };
        let taken = self.tally.frames - before;
        self.tally.store(to.len());
        // SAFETY: P3: `from` is stored, and objects are not written to once they are published;
        // `to` was just made. That `from` is published is what `relocate` knows: if it
        // is not, the copy may be of bytes that are being written, and is thrown away.
        unsafe { copy(frames, from, to) };
        call.charge(to.len());
        call.copied = true;
        let before = self.tally.frames;
        let moved = relocate(from, to);
        self.free(frames, if moved { from } else { to });
        let given_back = before - self.tally.frames;
        self.pass.taken += taken;
        self.pass.given_back += given_back;
        call.done.frames_taken += taken;
        call.done.frames += given_back;
        if moved {
            call.done.objects += 1;
            call.done.bytes += from.len();
        }
    }

    /// Puts the holes of a frame back on their lists, if it is marked.
    fn unmark(&mut self, frames: &impl FrameSource, frame: u32) {
        let state = self.state(frame);
        if state.marked {
            self.pass.marked -= 1;
            self.records.get(frame).set(State {
                marked: false,
                ..state
            });
            self.for_each_hole(frames, frame, |press, hole| {
                // SAFETY: P2: the frame was marked, so its holes are on no list.
                unsafe { press.holes.insert(frames, hole) };
            });
        }
    }

    /// For a store that finds no hole: the last frame that is marked, and that is not being
    /// emptied at this moment, is no victim any more. `false`: none was found.
    pub(super) fn take_back(&mut self, frames: &impl FrameSource) -> bool {
        if self.pass.marked == 0 {
            return false;
        }
        if self.pass.phase == Phase::Marking {
            self.begin_evacuating();
        }
        for _ in 0..LOOKED_AT {
            if self.pass.end <= self.pass.frame + 1 {
                return false;
            }
            self.pass.end -= 1;
            let frame = FrameIndex(self.pass.end);
            if self.records.find(frame).is_some_and(|r| r.state().marked) {
                self.unmark(frames, frame.0);
                return true;
            }
        }
        false
    }

    /// Calls `act` with each hole of a frame that can be on a list.
    fn for_each_hole(
        &mut self,
        frames: &impl FrameSource,
        frame: u32,
        mut act: impl FnMut(&mut Self, Hole),
    ) {
        // SAFETY: P1: the frame is held, and has blocks.
        let blocks = unsafe { Blocks::of(frames, frame) };
        blocks.for_each(|unit, header| {
            if header.kind == Kind::Hole {
                let place = Place::new(frame, unit);
                let units = header.value;
                act(self, Hole { units, place });
            }
        });
    }
}
