//! Storage whose frames have a few slots: zbud's two, or the three of RFC-0219.
//!
//! To store an object, search the partially filled frames for a slot that takes it; if there is
//! none, put it in the first slot of a new frame. Both searches and `free` take constant time:
//! "predictable operation with no long tail performance". In the worst case each object has a
//! frame of its own: "degrades in the worst case to not using any additional memory".
//!
//! ```text
//!  SlotStorage                  records, one a frame, 12 or 16 bytes    frames (host)
//!  ┌──────────────────┐        ┌──────────────────────────────┐
//!  │ search lists     │──────▶ │ [7] layout · next 4 · prev 4 │ ┄┄▶  frame 7: │L │ M│   R│
//!  │ tally            │        │ [8] …                        │ ┄┄▶  frame 8: │L    │   R│
//!  └──────────────────┘        └──────────────────────────────┘
//!                                record index = frame index: freeing searches for nothing
//! ```
//!
//! How slots lie in a frame is a [`FrameLayout`]'s business, of which there are two
//! (`slot_storage/two_slot.rs`, `slot_storage/three_slot.rs`); which frame is taken is that of
//! `search_lists.rs`.
//!
//! Invariants, besides those of the trait (S1 to S4), of layouts (L) and lists (B):
//! * T1 The record of a frame that is not held is an empty layout.
//! * T2 A frame's layout holds exactly the objects allocated and not freed in it, so objects do
//!   not overlap (L1).
//! * T3 A frame held that is not full is on the list of the bucket of its largest free slot; any
//!   other frame is on no list.
//! * T4 The tally (N1) is the sum over all layouts.
//!
//! The records are atomics, since pools hand out shared references; all are read and written
//! under the storage lock only.
//!
//! What it deliberately does not do: it does not compact (the RFC leaves that for when it is
//! needed), and it never looks into a frame, whose bytes are all the objects'.
#![forbid(unsafe_op_in_unsafe_fn)]

mod layout;
mod three_slot;
mod two_slot;

use coldpress_arena::{ChunkSource, Zeroable};

use crate::compressed_storage::{CompressedStorage, Usage};
use crate::frame::{FrameIndex, FrameSource};
use crate::frame_table::FrameTable;
use crate::reference::Reference;
use crate::search_lists::{Links, SearchLists, bucket_of};
use crate::tally::Tally;
use layout::FrameLayout;
pub use three_slot::ThreeSlot;
pub use two_slot::TwoSlot;

/// What is known of one frame.
#[repr(C)]
struct Record<L: FrameLayout> {
    layout: L::Cell,
    links: Links,
}

// SAFETY: the cell promises that of itself, and links are atomics; zero is an empty layout (L3)
// on no list.
unsafe impl<L: FrameLayout> Zeroable for Record<L> {}

impl<L: FrameLayout> Record<L> {
    fn layout(&self) -> L {
        L::load(&self.layout)
    }
}

/// Storage with slots that lie in each frame as `L` says: [`TwoSlot`] or [`ThreeSlot`].
///
/// `N` is how many records of `L` a page of the table has room for.
pub struct SlotStorage<L: FrameLayout, const N: usize> {
    /// By frame index (T1).
    records: FrameTable<Record<L>, N>,
    lists: SearchLists,
    tally: Tally,
}

impl<L: FrameLayout, const N: usize> Default for SlotStorage<L, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: FrameLayout, const N: usize> SlotStorage<L, N> {
    /// Storage that holds nothing, and has no tables yet.
    pub const fn new() -> Self {
        Self {
            records: FrameTable::new(),
            lists: SearchLists::new(),
            tally: Tally::new(),
        }
    }

    /// A frame that takes `len` bytes: from the lists, or a new one.
    fn frame_for(&mut self, frames: &impl FrameSource, len: usize) -> Option<FrameIndex> {
        let possible = self
            .lists
            .find_possible(len)
            .filter(|frame| self.records.get(*frame).layout().largest_free_bytes() >= len);
        if let Some(frame) = possible.or_else(|| self.lists.find_sure(len)) {
            return Some(FrameIndex(frame));
        }
        let frame = self.records.borrow_frame(frames)?;
        debug_assert!(self.records.get(frame.0).layout().is_empty(), "T1");
        self.tally.frames += 1;
        Some(frame)
    }

    /// Gives the frame another layout, and moves it to the list where it belongs then (T3).
    fn change_layout(&mut self, frame: FrameIndex, new: L) {
        let Self { records, lists, .. } = self;
        let record = records.get(frame.0);
        let links = |index| &records.get(index).links;
        let (from, to) = (list_of(record.layout()), list_of(new));
        new.store(&record.layout);
        if from != to {
            if let Some(bucket) = from {
                lists.remove(bucket, frame.0, links);
            }
            if let Some(bucket) = to {
                lists.insert(bucket, frame.0, links);
            }
        }
    }
}

/// The list on which a frame with this layout is; none for empty and full frames.
fn list_of(layout: impl FrameLayout) -> Option<usize> {
    if layout.is_empty() {
        None
    } else {
        bucket_of(layout.largest_free_bytes())
    }
}

impl<L: FrameLayout, const N: usize> CompressedStorage for SlotStorage<L, N> {
    const NAME: &'static str = L::NAME;

    fn reserve(&self, source: &impl ChunkSource, count: u32) -> bool {
        // Each allocation opens at most one frame, and frames are numbered densely.
        self.records.reserve(source, count)
    }

    fn allocate(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference> {
        if len == 0 || len > Self::MAX_OBJECT_BYTES {
            return None;
        }
        let frame = self.frame_for(frames, len)?;
        let mut layout = self.records.get(frame.0).layout();
        let slot = layout.choose(len).expect("T3: a listed frame has room");
        layout.put(slot, len);
        self.change_layout(frame, layout);
        self.tally.store(len);
        Some(Reference::new(frame, layout.offset(slot), len, slot))
    }

    fn free(&mut self, frames: &impl FrameSource, reference: Reference) {
        let frame = reference.frame();
        let record = self.records.find(frame).expect("no such frame is held");
        let mut layout = record.layout();
        let slot = reference.slot();
        assert!(slot < L::SLOTS && !reference.is_split(), "no such slot");
        assert!(
            layout.len(slot) == reference.len() && layout.offset(slot) == reference.offset(),
            "no such object is stored"
        );
        layout.clear(slot);
        self.change_layout(frame, layout);
        self.tally.free(reference.len());
        if layout.is_empty() {
            self.tally.frames -= 1;
            frames.free(frame);
        }
    }

    fn usage(&self) -> Usage {
        self.tally.usage(self.records.touched_bytes())
    }

    fn check_invariants(&self) {
        self.records.check_invariants();
        let (mut counted, mut listed) = (Tally::new(), 0);
        for (_, record) in self.records.iter() {
            let layout = record.layout();
            layout.check_invariants();
            counted.frames += usize::from(!layout.is_empty());
            counted.objects += layout.objects();
            counted.payload_bytes += layout.payload_bytes();
            listed += usize::from(list_of(layout).is_some());
        }
        assert_eq!(counted, self.tally, "T4");
        let mut on_lists = 0;
        self.lists.check_invariants(
            counted.frames,
            |index| &self.records.get(index).links,
            |bucket, frame| {
                on_lists += 1;
                let layout = self.records.get(frame).layout();
                assert_eq!(list_of(layout), Some(bucket), "T3: frame {frame}");
            },
        );
        assert_eq!(on_lists, listed, "T3: a frame with room is on no list");
    }
}
