//! Staging slots: pages that the compressor owns.
//!
//! Invariants:
//! * G1 The frame of a filled slot is not written until it is released.
//! * G2 A slot is filled only while it is empty.

use super::ram::{FrameNumber, Ram};
use crate::schedule::{random, step};
use crate::trace::What;
use coldpress_codec::Page;
use coldpress_engine::{PageIndex, STAGING_SLOTS, SegmentId, StagingSlot};
use std::cell::Cell;

/// How far the compression of the page in a slot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It waits its turn.
    #[default]
    Waiting,
    /// The codec has it.
    InCodec,
    /// The codec is done with it.
    Storing,
}

#[derive(Default)]
struct Slot {
    frame: Cell<FrameNumber>,
    from: Cell<(SegmentId, PageIndex)>,
    stage: Cell<Stage>,
}

/// Slots that reclaimers are given: three times as many as a run spans, and no more than the
/// engine knows.
const SLOTS: usize = 192;
const _: () = assert!(SLOTS <= STAGING_SLOTS);

/// All slots.
pub struct Staging {
    slots: Vec<Slot>,
    filled: Cell<usize>,
}

impl Staging {
    /// Empty slots.
    pub fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            filled: Cell::new(0),
        }
    }

    /// Puts a frame into a slot; it came from that page.
    pub fn fill(&self, slot: StagingSlot, frame: FrameNumber, from: (SegmentId, PageIndex)) {
        let slot = &self.slots[slot.0 as usize];
        assert_eq!(slot.frame.replace(frame), 0, "G2");
        slot.from.set(from);
        slot.stage.set(Stage::Waiting);
        self.filled.set(self.filled.get() + 1);
    }

    /// Takes the frame out of a slot; 0 if it is empty.
    pub fn empty(&self, slot: StagingSlot) -> FrameNumber {
        let frame = self.slots[slot.0 as usize].frame.replace(0);
        if frame != 0 {
            self.filled.set(self.filled.get() - 1);
        }
        frame
    }

    /// The page in a slot, for the compressor; `overwritten`: now and then it changes.
    pub fn page<'a>(&self, ram: &'a Ram, slot: StagingSlot, overwritten: bool) -> &'a Page {
        step(What::Staging, 0, 0, slot.0.into());
        let frame = self.frame(slot);
        if overwritten && random().one_in(64) {
            ram.with(frame, |page| page[7] ^= 1);
        }
        // SAFETY: in use, and not written until it is released (G1).
        unsafe { ram.address(frame).as_ref() }
    }

    /// The frame in a slot.
    fn frame(&self, slot: StagingSlot) -> FrameNumber {
        let frame = self.slots[slot.0 as usize].frame.get();
        assert!(frame != 0, "a slot is read that is empty");
        frame
    }

    /// How far the page in a slot is.
    pub fn stage(&self, slot: StagingSlot) -> Stage {
        self.slots[slot.0 as usize].stage.get()
    }

    /// The slot whose page lies at this address goes on to another stage.
    /// Says where it came from.
    pub fn advance(
        &self,
        ram: &Ram,
        page: *const Page,
        stage: Stage,
    ) -> Option<(SegmentId, PageIndex)> {
        let holds = |slot: &&Slot| {
            let frame = slot.frame.get();
            frame != 0 && ram.address(frame).as_ptr().cast_const() == page
        };
        let slot = self.slots.iter().find(holds)?;
        slot.stage.set(stage);
        Some(slot.from.get())
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Slots that are filled.
    pub fn filled(&self) -> usize {
        self.filled.get()
    }
}

impl Default for Staging {
    fn default() -> Self {
        Self::new()
    }
}
