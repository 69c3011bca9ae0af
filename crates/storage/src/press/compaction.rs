//! Compaction.
#![forbid(unsafe_op_in_unsafe_fn)]

use super::block::{Blocks, FRAME_UNITS, Kind, Place};
use super::{Press, State};
use crate::access::copy;
use crate::compressed_storage::Compaction;
use crate::frame::{FrameIndex, FrameSource};
use crate::reference::Reference;

const BUCKETS: usize = 64;
const BUCKET_UNITS: usize = 8;

/// How many frames have how many units in use.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Occupancy {
    frames: [u32; BUCKETS],
    used: [u64; BUCKETS],
}

impl Occupancy {
    pub(super) const fn new() -> Self {
        Self {
            frames: [0; BUCKETS],
            used: [0; BUCKETS],
        }
    }

    pub(super) fn add(&mut self, used: usize) {
        self.frames[used / BUCKET_UNITS] += 1;
        self.used[used / BUCKET_UNITS] += used as u64;
    }

    pub(super) fn remove(&mut self, used: usize) {
        self.frames[used / BUCKET_UNITS] -= 1;
        self.used[used / BUCKET_UNITS] -= used as u64;
    }

    /// The fullest bucket to evacuate, or none.
    fn limit(&self) -> Option<usize> {
        let frames: u64 = self.frames.iter().map(|n| u64::from(*n)).sum();
        let used: u64 = self.used.iter().sum();
        let unit = FRAME_UNITS as u64;
        let needed = (used * 100).div_ceil(unit * 99);
        let gain = frames.saturating_sub(needed);
        if gain == 0 || gain * 64 < frames {
            return None;
        }
        let (mut evacuated, mut room) = (0, frames * unit - used);
        for bucket in 0..BUCKETS {
            evacuated += self.used[bucket];
            room -= u64::from(self.frames[bucket]) * unit - self.used[bucket];
            if evacuated >= room {
                return Some(bucket);
            }
        }
        Some(BUCKETS - 1)
    }
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Phase {
    Idle,
    Marking,
    Evacuating,
}

/// A pass under way.
pub(super) struct Pass {
    phase: Phase,
    frame: u32,
    unit: usize,
    limit: usize,
    /// Frames marked.
    pub(super) marked: u32,
    taken: usize,
    freed: usize,
}

impl Pass {
    pub(super) const fn new() -> Self {
        Self {
            phase: Phase::Idle,
            frame: 0,
            unit: 0,
            limit: 0,
            marked: 0,
            taken: 0,
            freed: 0,
        }
    }
}

impl Press {
    pub(super) fn compact_frames(
        &mut self,
        frames: &impl FrameSource,
        budget_bytes: usize,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> Compaction {
        let mut done = Compaction::default();
        let mut spent = 0;
        let mut copied = 0;
        let ended = loop {
            match self.pass.phase {
                Phase::Idle => {
                    let Some(limit) = self.occupancy.limit() else {
                        break true;
                    };
                    self.pass = Pass {
                        phase: Phase::Marking,
                        frame: 1,
                        limit,
                        ..Pass::new()
                    };
                }
                Phase::Marking => {
                    let Some(frame) = self.records.next_touched(self.pass.frame, 64) else {
                        self.pass.phase = Phase::Evacuating;
                        (self.pass.frame, self.pass.unit) = (1, 0);
                        continue;
                    };
                    spent += 4;
                    let state = self.records.find(FrameIndex(frame)).map(|r| r.state());
                    if let Some(state) = state
                        && state.used != 0
                        && !state.alone
                        && state.used / BUCKET_UNITS <= self.pass.limit
                    {
                        self.unlist(frames, frame);
                        self.records.get(frame).set(State {
                            marked: true,
                            ..state
                        });
                        self.pass.marked += 1;
                        spent += 256;
                    }
                    self.pass.frame = frame + 1;
                    if spent >= budget_bytes {
                        break false;
                    }
                }
                Phase::Evacuating => {
                    let next = if self.pass.marked == 0 {
                        None
                    } else {
                        self.records.next_touched(self.pass.frame, 64)
                    };
                    let Some(frame) = next else {
                        debug_assert_eq!(self.pass.marked, 0);
                        self.pass = Pass::new();
                        break true;
                    };
                    if frame != self.pass.frame {
                        (self.pass.frame, self.pass.unit) = (frame, 0);
                    }
                    spent += 4;
                    let state = self.records.find(FrameIndex(frame)).map(|r| r.state());
                    if state.is_some_and(|s| s.marked)
                        && !self.evacuate(
                            frames,
                            budget_bytes,
                            &mut spent,
                            &mut copied,
                            &mut done,
                            relocate,
                        )
                    {
                        break false;
                    }
                    (self.pass.frame, self.pass.unit) = (frame + 1, 0);
                    if spent >= budget_bytes {
                        break false;
                    }
                }
            }
        };
        done.pass_ended = ended;
        done
    }

    fn unlist(&mut self, frames: &impl FrameSource, frame: u32) {
        let blocks = unsafe { Blocks::of(frames, frame) };
        let holes = &mut self.holes;
        blocks.for_each(|unit, header| {
            if header.kind == Kind::Hole {
                unsafe { holes.remove(frames, Place::new(frame, unit), header.value) };
            }
        });
    }

    fn relist(&mut self, frames: &impl FrameSource, frame: u32) {
        let blocks = unsafe { Blocks::of(frames, frame) };
        let holes = &mut self.holes;
        blocks.for_each(|unit, header| {
            if header.kind == Kind::Hole {
                unsafe { holes.insert(frames, Place::new(frame, unit), header.value) };
            }
        });
    }

    fn evacuate(
        &mut self,
        frames: &impl FrameSource,
        budget_bytes: usize,
        spent: &mut usize,
        copied: &mut usize,
        done: &mut Compaction,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> bool {
        let frame = self.pass.frame;
        while self.state(frame).marked {
            let blocks = unsafe { Blocks::of(frames, frame) };
            let Some((unit, header)) = blocks.next_object(self.pass.unit) else {
                break;
            };
            let from = self.object_at(frames, Place::new(frame, unit), header);
            if *copied != 0 && *spent + from.len() > budget_bytes {
                return false;
            }
            self.pass.unit = unit + header.units();
            let may_begin = self.pass.marked >= 2 && self.pass.taken <= self.pass.freed;
            let before = self.frames;
            let Some(to) = self.place(frames, from.len(), may_begin) else {
                continue;
            };
            self.pass.taken += self.frames - before;
            done.frames_taken += self.frames - before;
            self.objects += 1;
            self.payload_bytes += from.len();
            *spent += from.len();
            *copied += from.len();
            // SAFETY: stored.
            unsafe { copy(frames, from, to) };
            let before = self.frames;
            use crate::compressed_storage::CompressedStorage;
            if relocate(from, to) {
                self.free(frames, from);
                done.objects += 1;
                done.bytes += from.len();
                self.pass.freed += before - self.frames;
                done.frames += before - self.frames;
            } else {
                self.free(frames, to);
                done.frames += before - self.frames;
                self.pass.taken -= (before - self.frames).min(self.pass.taken);
            }
        }
        let state = self.state(frame);
        if state.marked {
            self.records.get(frame).set(State {
                marked: false,
                ..state
            });
            self.relist(frames, frame);
            self.pass.marked -= 1;
        }
        true
    }
}
