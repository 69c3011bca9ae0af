//! zbud: at most two objects a frame, the first and the last buddy.
//!
//! ```text
//!  0            first                          4096 − round8(last)             4096
//!  ├────────────┬──────────────────────────────┬───────────────────────────────┤
//!  │ first      │ free                         │                          last │
//!  ├────────────┴──────────────────────────────┴───────────────────────────────┤
//! ```
//!
//! "One bound to the beginning, one to the end." A frame with one object is on the list of what
//! is free in it; an object goes to the smallest such frame that is sure to take it, or becomes
//! the first buddy of a new frame. At best two pages in one, "simplicity and stability".
//!
//! zbud keeps a header inside the frame and so "can't handle PAGE_SIZE allocations"; here what is
//! known of a frame is a record beside it, 12 bytes, and every object of up to a page is taken.
//!
//! Invariants, besides those of the trait (S1 to S4) and of lists (B):
//! * W1 The record of a frame that is not held says that there is no buddy.
//! * W2 `first + round8(last) <= 4096`, so the buddies share no byte.
//! * W3 A frame with one buddy and room is on the list of its free bytes; no other frame is on
//!   a list.
//! * W4 `frames`, `objects` and `payload_bytes` are the sums over all records.
//!
//! What it deliberately does not do: it does not compact, and never looks into a frame.
//!
//! Follows seed 002, "zswap backend: zbud".
#![forbid(unsafe_op_in_unsafe_fn)]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use coldpress_arena::{ChunkSource, Zeroable};

use crate::compressed_storage::{CompressedStorage, Usage};
use crate::frame::{FRAME_BYTES, FrameIndex, FrameSource};
use crate::frame_table::FrameTable;
use crate::reference::{GRANULE_BYTES, Reference};
use crate::search_lists::{Links, SearchLists, bucket_of};

/// Numbers of the buddies, as references carry them.
const FIRST: u8 = 0;
const LAST: u8 = 1;

/// What is known of one frame: the buddies' exact lengths.
#[repr(C)]
struct Record {
    buddies: AtomicU32,
    links: Links,
}

const _: () = assert!(size_of::<Record>() == 12);

// SAFETY: a record is made of atomics only; zero is a frame without a buddy, on no list.
unsafe impl Zeroable for Record {}

/// Exact lengths of first and last buddy; 0 for none.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
struct Buddies {
    lens: [u16; 2],
}

impl Buddies {
    fn of(record: &Record) -> Self {
        let bits = record.buddies.load(Relaxed);
        Self {
            lens: [bits as u16, (bits >> 16) as u16],
        }
    }

    fn len(self, buddy: u8) -> usize {
        usize::from(self.lens[usize::from(buddy)])
    }

    fn offset(self, buddy: u8) -> usize {
        match buddy {
            FIRST => 0,
            _ => FRAME_BYTES - self.len(LAST).next_multiple_of(GRANULE_BYTES),
        }
    }

    fn objects(self) -> usize {
        self.lens.iter().filter(|len| **len != 0).count()
    }

    /// The largest object that still fits; a frame takes two at most.
    fn free_bytes(self) -> usize {
        match self.objects() {
            2 => 0,
            _ => self.offset(LAST) - self.len(FIRST).next_multiple_of(GRANULE_BYTES),
        }
    }

    /// The list on which such a frame is.
    fn list(self) -> Option<usize> {
        match self.objects() {
            1 => bucket_of(self.free_bytes()),
            _ => None,
        }
    }
}

/// Storage with a first and a last buddy in each frame.
///
/// About 33 KiB by itself; meant to be a `static`, or part of one.
pub struct TwoSlot {
    /// By frame index (W1).
    records: FrameTable<Record, 341>,
    lists: SearchLists,
    frames: usize,
    objects: usize,
    payload_bytes: usize,
}

impl Default for TwoSlot {
    fn default() -> Self {
        Self::new()
    }
}

impl TwoSlot {
    /// Storage that holds nothing, and has no tables yet.
    pub const fn new() -> Self {
        Self {
            records: FrameTable::new(),
            lists: SearchLists::new(),
            frames: 0,
            objects: 0,
            payload_bytes: 0,
        }
    }

    /// A frame that takes `len` bytes: from the lists, or a new one.
    fn frame_for(&mut self, frames: &impl FrameSource, len: usize) -> Option<FrameIndex> {
        let possible = self
            .lists
            .find_possible(len)
            .filter(|frame| Buddies::of(self.records.get(*frame)).free_bytes() >= len);
        if let Some(frame) = possible.or_else(|| self.lists.find_sure(len)) {
            return Some(FrameIndex(frame));
        }
        let frame = frames.allocate()?;
        if !self.records.adopt(frame) {
            frames.free(frame);
            return None;
        }
        self.frames += 1;
        Some(frame)
    }

    /// Notes other buddies, and moves the frame to the list where it belongs then (W3).
    fn change(&mut self, frame: FrameIndex, new: Buddies) {
        let Self { records, lists, .. } = self;
        let record = records.get(frame.0);
        let links = |index| &records.get(index).links;
        let (from, to) = (Buddies::of(record).list(), new.list());
        let bits = u32::from(new.lens[0]) | u32::from(new.lens[1]) << 16;
        record.buddies.store(bits, Relaxed);
        if let Some(bucket) = from {
            lists.remove(bucket, frame.0, links);
        }
        if let Some(bucket) = to {
            lists.insert(bucket, frame.0, links);
        }
    }
}

impl CompressedStorage for TwoSlot {
    const NAME: &'static str = "two-slot";

    fn reserve(&self, source: &impl ChunkSource, count: u32) -> bool {
        // Each allocation opens at most one frame, and frames are numbered densely.
        self.records.reserve(source, count)
    }

    fn allocate(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference> {
        if len == 0 || len > Self::MAX_OBJECT_BYTES {
            return None;
        }
        let frame = self.frame_for(frames, len)?;
        let mut buddies = Buddies::of(self.records.get(frame.0));
        let buddy = if buddies.len(FIRST) == 0 { FIRST } else { LAST };
        debug_assert!(buddies.free_bytes() >= len, "W3: a listed frame has room");
        buddies.lens[usize::from(buddy)] = len as u16;
        self.change(frame, buddies);
        self.objects += 1;
        self.payload_bytes += len;
        Some(Reference::new(frame, buddies.offset(buddy), len, buddy))
    }

    fn free(&mut self, frames: &impl FrameSource, reference: Reference) {
        let frame = reference.frame();
        let record = self.records.find(frame).expect("no such frame is held");
        let mut buddies = Buddies::of(record);
        let buddy = reference.slot();
        assert!(buddy <= LAST && !reference.is_split(), "no such slot");
        assert!(
            buddies.len(buddy) == reference.len() && buddies.offset(buddy) == reference.offset(),
            "no such object is stored"
        );
        buddies.lens[usize::from(buddy)] = 0;
        self.change(frame, buddies);
        self.objects -= 1;
        self.payload_bytes -= reference.len();
        if buddies.objects() == 0 {
            self.frames -= 1;
            frames.free(frame);
        }
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

    fn check_invariants(&self) {
        self.records.check_invariants();
        let (mut frames, mut objects, mut payload_bytes, mut listed) = (0, 0, 0, 0);
        for (_, record) in self.records.iter() {
            let buddies = Buddies::of(record);
            let first = buddies.len(FIRST).next_multiple_of(GRANULE_BYTES);
            assert!(first <= buddies.offset(LAST), "W2");
            frames += usize::from(buddies.objects() != 0);
            objects += buddies.objects();
            payload_bytes += buddies.len(FIRST) + buddies.len(LAST);
            listed += usize::from(buddies.list().is_some());
        }
        assert_eq!(
            (frames, objects, payload_bytes),
            (self.frames, self.objects, self.payload_bytes),
            "W4"
        );
        let mut on_lists = 0;
        self.lists.check_invariants(
            frames,
            |index| &self.records.get(index).links,
            |bucket, frame| {
                on_lists += 1;
                let buddies = Buddies::of(self.records.get(frame));
                assert_eq!(buddies.list(), Some(bucket), "W3: frame {frame}");
            },
        );
        assert_eq!(on_lists, listed, "W3: a frame with room is on no list");
    }
}
