//! Which frame is in place where.
//!
//! ```text
//!   segment ──▶ 128 leaves ──▶ 64 frames      by the segment's number: a table that only grows
//!                              from a pool, as long as one of them holds a frame
//! ```
//!
//! A place is read and written under the lock of its VMO; the pools have a lock of their own.

use coldpress_arena::{ChunkSource, Link, Pool, Zeroable};
use coldpress_engine::{LEAF_PAGES, Place, SEGMENT_PAGES};
use parking_lot::Mutex;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

const LEAVES: usize = (SEGMENT_PAGES / LEAF_PAGES) as usize;

/// Leaves and segments that are left when room for a new page is refused: for pages that move, or come back.
const KEPT: u32 = 1024;

/// The frames of a segment's leaves.
#[repr(C)]
struct Segment {
    link: AtomicU32,
    leaves: [AtomicU32; LEAVES],
}

/// The frames of 64 pages.
#[repr(C)]
struct Leaf {
    link: AtomicU32,
    /// Frames in it.
    used: AtomicU32,
    frames: [AtomicU32; LEAF_PAGES as usize],
}

// SAFETY: atomics; zero is valid.
unsafe impl Zeroable for Segment {}
// SAFETY: as above.
unsafe impl Zeroable for Leaf {}

impl Link for Segment {
    /// Never called: segments are addressed by number, and none is taken or given.
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl Link for Leaf {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

/// Frames by place. Frame 0 is none.
pub(crate) struct Places {
    segments: Pool<Segment>,
    leaves: Pool<Leaf>,
    /// The highest number of a segment that was seen; written under `growth`.
    highest: AtomicU32,
    /// Guards taking from, giving to and growing the pools. A leaf, below a VMO's lock.
    growth: Mutex<()>,
}

impl Places {
    pub(crate) fn new() -> Self {
        Self {
            segments: Pool::new(),
            leaves: Pool::new(),
            highest: AtomicU32::new(0),
            growth: Mutex::new(()),
        }
    }

    /// Bytes that were touched.
    pub(crate) fn bytes(&self) -> usize {
        self.highest.load(Relaxed) as usize * size_of::<Segment>() + self.leaves.touched_bytes()
    }

    /// The leaf's number; 0: none.
    fn leaf(&self, (segment, index): Place) -> u32 {
        if segment > self.highest.load(Acquire) {
            return 0;
        }
        let leaf = (index / LEAF_PAGES) as usize;
        self.segments.get(segment).leaves[leaf].load(Relaxed)
    }

    fn cell(&self, leaf: u32, index: u32) -> &AtomicU32 {
        &self.leaves.get(leaf).frames[(index % LEAF_PAGES) as usize]
    }

    /// The frame in place; 0: none.
    pub(crate) fn get(&self, place: Place) -> u32 {
        match self.leaf(place) {
            0 => 0,
            leaf => self.cell(leaf, place.1).load(Relaxed),
        }
    }

    /// Has room for a page that is new at a place. `false`: no memory, or too little for those that may come after it.
    pub(crate) fn prepare(&self, source: &impl ChunkSource, place: Place) -> bool {
        self.prepare_keeping(source, place, KEPT)
    }

    /// Has room for a page that is in some place already.
    ///
    /// # Panics
    /// If there is none: more pages came back in one moment than are kept room for, and the kernel has no memory.
    pub(crate) fn prepare_return(&self, source: &impl ChunkSource, place: Place) {
        let has_room = self.prepare_keeping(source, place, 0);
        assert!(has_room, "no memory for the places of 64 pages");
    }

    fn prepare_keeping(&self, source: &impl ChunkSource, place: Place, kept: u32) -> bool {
        if self.leaf(place) != 0 {
            return true;
        }
        let (segment, index) = place;
        let _growth = self.growth.lock();
        // Segments up to `available` exist, since none is ever taken.
        if !self.segments.reserve(source, segment + kept) || !self.leaves.reserve(source, 1 + kept)
        {
            return false;
        }
        self.highest.fetch_max(segment, Release);
        let Some(leaf) = self.leaves.take() else {
            return false;
        };
        self.leaves.get(leaf).used.store(0, Relaxed);
        self.segments.get(segment).leaves[(index / LEAF_PAGES) as usize].store(leaf, Relaxed);
        true
    }

    /// Puts a frame in place, where there is none, and room was [prepared](Self::prepare).
    pub(crate) fn put(&self, place: Place, frame: u32) {
        let leaf = self.leaf(place);
        let before = self.cell(leaf, place.1).swap(frame, Relaxed);
        debug_assert_eq!(before, 0, "two frames at one place");
        let used = &self.leaves.get(leaf).used;
        used.store(used.load(Relaxed) + 1, Relaxed);
    }

    /// Takes the frame from its place. Room stays for it there, until the leaf is [let go](Self::let_go).
    pub(crate) fn take(&self, place: Place) -> u32 {
        let leaf = self.leaf(place);
        debug_assert_ne!(leaf, 0, "no frame in place");
        let frame = self.cell(leaf, place.1).swap(0, Relaxed);
        let used = &self.leaves.get(leaf).used;
        used.store(used.load(Relaxed) - 1, Relaxed);
        frame
    }

    /// Gives the leaf of a place back, if it holds no frame.
    pub(crate) fn let_go(&self, place: Place) {
        let leaf = self.leaf(place);
        if leaf != 0 && self.leaves.get(leaf).used.load(Relaxed) == 0 {
            let (segment, index) = place;
            self.segments.get(segment).leaves[(index / LEAF_PAGES) as usize].store(0, Relaxed);
            let _growth = self.growth.lock();
            self.leaves.give(leaf);
        }
    }
}
