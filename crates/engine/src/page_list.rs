//! Page lists, in segments: from the index of a page in its segment to its entry.
//!
//! ```text
//!  Segment                        Leaf (from a pool, when first needed)
//!  leaves[128] ─────────────▶ entries[64] of 64 bits, count of those not empty
//! ```
//!
//! Invariants (all under the VMO's lock):
//! * I1 A leaf that is named by a segment belongs to it alone; `live` is the number of its entries
//!   that are not empty.
//! * I2 `Page(r)` stands in exactly one entry, and record `r` names that entry as its backlink.
//! * I3 `Compressed(ref)` stands in exactly one entry; the page is missing at its address.
//!
//! A leaf stays with its segment once it was needed (528 bytes for 256 KiB of memory that was
//! managed at one time): entries come and go far too often to give leaves back.

use crate::entry::Entry;
use crate::lock::{self, rank};
use crate::{Engine, Host, LEAF_PAGES, PageIndex, SEGMENT_PAGES, SegmentId};
use coldpress_arena::{Link, Zeroable};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use lock_api::RawMutex;

const LEAVES: usize = (SEGMENT_PAGES / LEAF_PAGES) as usize;

/// A range of anonymous memory of [`SEGMENT_PAGES`] pages.
#[repr(C)]
pub(crate) struct Segment<R> {
    link: AtomicU32,
    /// Guards the entries of this VMO's page list. Held for lookups and updates, for copying
    /// one page out of a staging slot, and while a page of which nothing is remembered is
    /// given zeros; never over a codec.
    lock: UnsafeCell<R>,
    leaves: [AtomicU32; LEAVES],
}

// SAFETY: zero is valid for atomics; `Host::RawLock` promises that zero is an unlocked lock.
unsafe impl<R> Zeroable for Segment<R> {}
// SAFETY: everything is atomic but the lock cell, which only `reset_lock` writes, alone.
unsafe impl<R: Sync> Sync for Segment<R> {}

impl<R> Link for Segment<R> {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

/// 64 entries of a page list.
#[repr(C)]
pub(crate) struct Leaf {
    entries: [AtomicU64; LEAF_PAGES as usize],
    /// Pages that the host is passing over while it takes a run out: none of them may be put in
    /// place now (see `compress`). Set under the VMO's lock, never for a request.
    claimed: AtomicU64,
    link: AtomicU32,
    live: AtomicU32,
}

// SAFETY: atomics; zero is valid.
unsafe impl Zeroable for Leaf {}

impl Link for Leaf {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl<R: RawMutex> Segment<R> {
    fn lock(&self) -> &R {
        // SAFETY: only `reset_lock` writes the cell, and its caller promises to be alone.
        unsafe { &*self.lock.get() }
    }

    pub(crate) fn clear(&self) {
        for leaf in &self.leaves {
            leaf.store(0, Relaxed);
        }
    }

    /// Makes the lock free again.
    ///
    /// # Safety
    /// No other thread uses this VMO.
    pub(crate) unsafe fn reset_lock(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.lock.get().write(R::INIT) };
    }
}

/// The page list of one VMO, with its lock held.
pub(crate) struct PageList<'a, H: Host> {
    segment: &'a Segment<H::RawLock>,
    leaves: &'a coldpress_arena::Pool<Leaf>,
}

impl<H: Host> Drop for PageList<'_, H> {
    fn drop(&mut self) {
        // SAFETY: locked when this was made.
        unsafe { self.segment.lock().unlock() };
        lock::give::<H::RawLock>(rank::VMO);
    }
}

impl<H: Host> PageList<'_, H> {
    fn leaf(&self, index: PageIndex) -> Option<&Leaf> {
        match self.segment.leaves[(index / LEAF_PAGES) as usize].load(Acquire) {
            0 => None,
            leaf => Some(self.leaves.get(leaf)),
        }
    }

    /// The entry of page `index`.
    pub(crate) fn get(&self, index: PageIndex) -> Entry {
        self.leaf(index).map_or(Entry::Empty, |leaf| {
            Entry::decode(leaf.entries[(index % LEAF_PAGES) as usize].load(Relaxed))
        })
    }

    /// Claims pages of the leaf of `index`, or (0) ends the claim.
    pub(crate) fn claim(&self, index: PageIndex, pages: u64) {
        if let Some(leaf) = self.leaf(index) {
            leaf.claimed.store(pages, Release);
        }
    }

    /// Number of entries that are not empty in the leaf of `index`.
    pub(crate) fn live(&self, index: PageIndex) -> u32 {
        self.leaf(index).map_or(0, |leaf| leaf.live.load(Relaxed))
    }

    /// Sets the entry of page `index`. An entry that is not empty needs a leaf.
    pub(crate) fn set(&self, index: PageIndex, entry: Entry) {
        let Some(leaf) = self.leaf(index) else {
            assert_eq!(entry, Entry::Empty, "no leaf for this entry");
            return;
        };
        let slot = &leaf.entries[(index % LEAF_PAGES) as usize];
        let was_empty = slot.load(Relaxed) == 0;
        slot.store(entry.encode(), Relaxed);
        match (was_empty, entry == Entry::Empty) {
            (true, false) => leaf.live.store(leaf.live.load(Relaxed) + 1, Relaxed),
            (false, true) => leaf.live.store(leaf.live.load(Relaxed) - 1, Relaxed),
            _ => {}
        }
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Locks `segment` and gives its page list.
    pub(crate) fn page_list(&self, segment: SegmentId) -> PageList<'_, H> {
        let segment = self.segments.get(segment);
        lock::take::<H::RawLock>(rank::VMO);
        segment.lock().lock();
        PageList {
            segment,
            leaves: &self.leaves,
        }
    }

    /// Makes sure that `segment` has a leaf for page `index`. `false`: no memory. With `grow` unset
    /// only a leaf that is already there is taken.
    pub(crate) fn ensure_leaf(
        &self,
        host: &H,
        segment: SegmentId,
        index: PageIndex,
        grow: bool,
    ) -> bool {
        let slot = &self.segments.get(segment).leaves[(index / LEAF_PAGES) as usize];
        if slot.load(Acquire) != 0 {
            return true;
        }
        let _tables = self.tables.lock();
        if slot.load(Acquire) != 0 {
            return true;
        }
        if grow && !self.leaves.reserve(host, 1) {
            return false;
        }
        match self.leaves.take() {
            Some(leaf) => {
                slot.store(leaf, Release);
                true
            }
            None => false,
        }
    }

    /// Keeps `leaves` leaves and records for `pages` more pages ready, so that faults which need
    /// one find it without growing.
    pub fn prepare_for(&self, host: &H, leaves: u32, pages: u32) -> bool {
        let leaves = {
            let _tables = self.tables.lock();
            self.leaves.reserve(host, leaves)
        };
        let queues = self.queues.lock();
        leaves && self.pages.reserve(host, queues.records_wanted(pages))
    }

    /// The entry of a page, read without a lock: for figures and for the child of a fork.
    pub fn entry(&self, segment: SegmentId, index: PageIndex) -> Entry {
        match self.segments.get(segment).leaves[(index / LEAF_PAGES) as usize].load(Acquire) {
            0 => Entry::Empty,
            leaf => Entry::decode(
                self.leaves.get(leaf).entries[(index % LEAF_PAGES) as usize].load(Relaxed),
            ),
        }
    }

    /// Whether the page is claimed by a run that is being taken out.
    pub(crate) fn is_claimed(&self, segment: SegmentId, index: PageIndex) -> bool {
        match self.segments.get(segment).leaves[(index / LEAF_PAGES) as usize].load(Acquire) {
            0 => false,
            leaf => self.leaves.get(leaf).claimed.load(Acquire) & 1 << (index % LEAF_PAGES) != 0,
        }
    }

    /// Whether page `index` of `segment` lies in a leaf that exists.
    pub fn has_leaf(&self, segment: SegmentId, index: PageIndex) -> bool {
        self.segments.get(segment).leaves[(index / LEAF_PAGES) as usize].load(Acquire) != 0
    }
}
