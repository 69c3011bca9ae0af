//! Page lists, in segments: from the index of a page in its segment to its entry.
//!
//! ```text
//!  Segment                        Leaf (from a pool, when first needed)
//!  leaves[128] ─────────────▶ entries[64] of 64 bits, count of those not empty
//!  locked_by ──▶ the segment     home ──▶ the segment and the place among its leaves
//!                whose lock guards this one
//! ```
//!
//! The page list of a VMO is made of segments, of which only those exist that were needed. A host
//! that maps fixed windows, as the Linux runtime, uses single segments. The segments of all VMOs
//! that share pages by copy-on-write are guarded by one lock: whoever holds it may look through
//! all of them, and no order between locks of VMOs is needed. Which lock guards a segment is said
//! when it is created and does not change.
//!
//! Invariants (all under the VMO's lock):
//! * I1 A leaf that is named by a segment belongs to it alone, and has it as its home; `live` is
//!   the number of its entries that are not empty.
//! * I2 `Page(r)` stands in exactly one entry, and record `r` names that entry as its backlink.
//! * I3 `Compressed(ref)` stands in exactly one entry, which the stored object names as its owner;
//!   the page is missing at its address.
//! * I4 `committed` and `content` of a segment are the number of its entries that hold a page, and
//!   of those that remember anything but zeros.
//!
//! A leaf stays with its segment once it was needed (536 bytes for 256 KiB of memory that was
//! managed at one time): entries come and go far too often to give leaves back.

use crate::entry::Entry;
use crate::lock::{self, rank};
use crate::{Engine, Host, LEAF_PAGES, PageIndex, SEGMENT_PAGES, SegmentId};
use coldpress_arena::{Link, Pool, Zeroable};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use lock_api::RawMutex;

const LEAVES: usize = (SEGMENT_PAGES / LEAF_PAGES) as usize;

/// A piece of a page list: [`SEGMENT_PAGES`] pages.
#[repr(C)]
pub(crate) struct Segment<R> {
    link: AtomicU32,
    /// The segment whose lock guards this one; itself, where it stands alone.
    locked_by: AtomicU32,
    /// Guards the entries of the segments that name this one in `locked_by`. Held for lookups
    /// and updates, for copying one page, and while a page of which nothing is remembered is
    /// given zeros; never over a codec.
    lock: UnsafeCell<R>,
    /// I4.
    committed: AtomicU32,
    content: AtomicU32,
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
    /// I1: the segment, times the leaves of one, plus the place among them.
    home: AtomicU32,
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

    pub(crate) fn clear(&self, locked_by: SegmentId) {
        self.locked_by.store(locked_by, Relaxed);
        self.committed.store(0, Relaxed);
        self.content.store(0, Relaxed);
        for leaf in &self.leaves {
            leaf.store(0, Relaxed);
        }
    }

    /// The number of the leaf of page `index`; 0 if there is none.
    pub(crate) fn leaf_number(&self, index: PageIndex) -> u32 {
        self.leaves[(index / LEAF_PAGES) as usize].load(Acquire)
    }

    /// Makes the lock free again.
    ///
    /// # Safety
    /// No other thread uses this segment's lock.
    pub(crate) unsafe fn reset_lock(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.lock.get().write(R::INIT) };
    }
}

/// The entries of one segment, while the lock that guards them is held.
pub(crate) struct Entries<'a, R> {
    segment: &'a Segment<R>,
    leaves: &'a Pool<Leaf>,
}

impl<R: RawMutex> Entries<'_, R> {
    fn leaf(&self, index: PageIndex) -> Option<&Leaf> {
        match self.segment.leaf_number(index) {
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

    /// Claims pages of the leaf of `index`.
    pub(crate) fn claim(&self, index: PageIndex, pages: u64) {
        if let Some(leaf) = self.leaf(index) {
            let claimed = leaf.claimed.load(Relaxed);
            debug_assert_eq!(claimed & pages, 0, "claimed twice");
            leaf.claimed.store(claimed | pages, Release);
        }
    }

    /// Ends a claim.
    pub(crate) fn end_claim(&self, index: PageIndex, pages: u64) {
        if let Some(leaf) = self.leaf(index) {
            leaf.claimed
                .store(leaf.claimed.load(Relaxed) & !pages, Release);
        }
    }

    /// The pages of the leaf of `index` that are claimed.
    pub(crate) fn claimed(&self, index: PageIndex) -> u64 {
        self.leaf(index)
            .map_or(0, |leaf| leaf.claimed.load(Relaxed))
    }

    /// Number of entries that are not empty in the leaf of `index`.
    pub(crate) fn live(&self, index: PageIndex) -> u32 {
        self.leaf(index).map_or(0, |leaf| leaf.live.load(Relaxed))
    }

    /// The owner that the stored object of page `index` names: its leaf, and the place there.
    pub(crate) fn owner(&self, index: PageIndex) -> Owner {
        let leaf = self.segment.leaf_number(index);
        Owner(leaf * LEAF_PAGES + index % LEAF_PAGES)
    }

    /// Sets the entry of page `index`. An entry that is not empty needs a leaf.
    pub(crate) fn set(&self, index: PageIndex, entry: Entry) {
        let Some(leaf) = self.leaf(index) else {
            assert_eq!(entry, Entry::Empty, "no leaf for this entry");
            return;
        };
        let slot = &leaf.entries[(index % LEAF_PAGES) as usize];
        let old = Entry::decode(slot.load(Relaxed));
        slot.store(entry.encode(), Relaxed);
        let recount = |count: &AtomicU32, of: fn(Entry) -> bool| match (of(old), of(entry)) {
            (false, true) => count.store(count.load(Relaxed) + 1, Relaxed),
            (true, false) => count.store(count.load(Relaxed) - 1, Relaxed),
            _ => {}
        };
        recount(&leaf.live, |entry| entry != Entry::Empty);
        recount(&self.segment.committed, Entry::is_committed);
        recount(&self.segment.content, Entry::is_content);
    }

    /// Pages held by entries of this segment (I4).
    pub(crate) fn committed(&self) -> u32 {
        self.segment.committed.load(Relaxed)
    }

    /// Entries of this segment that remember anything but zeros (I4).
    pub(crate) fn content(&self) -> u32 {
        self.segment.content.load(Relaxed)
    }
}

/// Where the entry of a stored object stands, in 32 bits: the number of its leaf, times
/// [`LEAF_PAGES`], plus the place there. The leaf knows its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(pub u32);

/// The entries of one segment, and the lock that guards them.
pub(crate) struct PageList<'a, H: Host> {
    entries: Entries<'a, H::RawLock>,
    guard: &'a Segment<H::RawLock>,
}

impl<'a, H: Host> Deref for PageList<'a, H> {
    type Target = Entries<'a, H::RawLock>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl<H: Host> Drop for PageList<'_, H> {
    fn drop(&mut self) {
        // SAFETY: locked when this was made.
        unsafe { self.guard.lock().unlock() };
        lock::give::<H::RawLock>(rank::VMO);
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Locks `segment` and gives its page list.
    pub(crate) fn page_list(&self, segment: SegmentId) -> PageList<'_, H> {
        lock::take::<H::RawLock>(rank::VMO);
        let guard = self.guard_of(segment);
        guard.lock().lock();
        self.page_list_locked(segment, guard)
    }

    /// The same where that needs no waiting; what the caller holds does not matter then.
    pub(crate) fn try_page_list(&self, segment: SegmentId) -> Option<PageList<'_, H>> {
        let guard = self.guard_of(segment);
        guard.lock().try_lock().then(|| {
            lock::take_tried::<H::RawLock>(rank::VMO);
            self.page_list_locked(segment, guard)
        })
    }

    fn guard_of(&self, segment: SegmentId) -> &Segment<H::RawLock> {
        self.segments
            .get(self.segments.get(segment).locked_by.load(Relaxed))
    }

    fn page_list_locked<'a>(
        &'a self,
        segment: SegmentId,
        guard: &'a Segment<H::RawLock>,
    ) -> PageList<'a, H> {
        PageList {
            entries: Entries {
                segment: self.segments.get(segment),
                leaves: &self.leaves,
            },
            guard,
        }
    }

    /// Where the owner of a stored object is: segment and index. Whether the object really is
    /// there only the entry tells.
    pub(crate) fn home_of(&self, owner: Owner) -> Option<(SegmentId, PageIndex)> {
        let (leaf, place) = (owner.0 / LEAF_PAGES, owner.0 % LEAF_PAGES);
        if leaf == 0 || leaf > self.leaves.handed_out() {
            return None;
        }
        let home = self.leaves.get(leaf).home.load(Relaxed);
        let (segment, at) = (home / LEAVES as u32, home % LEAVES as u32);
        (segment != 0).then_some((segment, at * LEAF_PAGES + place))
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
                let home = segment * LEAVES as u32 + index / LEAF_PAGES;
                self.leaves.get(leaf).home.store(home, Relaxed);
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

    /// Pages held by entries of a segment, and entries that remember anything but zeros: what the
    /// RFC calls committed and content, in pages.
    pub fn committed_and_content(&self, segment: SegmentId) -> (u32, u32) {
        let list = self.page_list(segment);
        (list.committed(), list.content())
    }

    /// Whether page `index` of `segment` lies in a leaf that exists.
    pub fn has_leaf(&self, segment: SegmentId, index: PageIndex) -> bool {
        self.segments.get(segment).leaves[(index / LEAF_PAGES) as usize].load(Acquire) != 0
    }
}
