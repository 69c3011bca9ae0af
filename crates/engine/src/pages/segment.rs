//! Segments and leaves: what page lists are made of.
//!
//! ```text
//!  Segment                        Leaf (from a pool, when first needed)
//!  leaves[128] ─────────────▶ entries[64] of 64 bits, count of those not empty
//!  locked_by ──▶ the segment     home ──▶ the segment and the place among its leaves
//!                whose lock guards this one
//!  number, left, right: its      counts ──▶ 64 counters, where the VMO layer needs some
//!                place in the directory of a VMO
//! ```
//!
//! A segment is guarded by the lock of the segment that `locked_by` names, which is set when it is
//! created and becomes 0, under that lock, when it is freed. Who has a number of a segment that may
//! be gone takes the lock and looks again (`Engine::page_list_if_there`). The lock itself is never
//! written anew when a segment is used again: somebody who still waits for it gets it, looks, and
//! goes away.

use crate::{LEAF_PAGES, PageIndex, SEGMENT_PAGES, SegmentId};
use coldpress_arena::{Link, Zeroable};
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use lock_api::RawMutex;

pub(crate) const LEAVES: usize = (SEGMENT_PAGES / LEAF_PAGES) as usize;

/// A number that is read and written under one lock. It is atomic only so that it can lie in a
/// pool, and be looked at by who does not hold the lock and will look again.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Word(AtomicU32);

impl Word {
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }
}

/// The same for 64 bits.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Long(AtomicU64);

impl Long {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// Where the entry of a stored object stands, in 32 bits: the number of its leaf, times
/// [`LEAF_PAGES`], plus the place there. The leaf knows its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(pub u32);

/// A piece of a page list: [`SEGMENT_PAGES`] pages.
#[repr(C)]
pub(crate) struct Segment<R> {
    link: AtomicU32,
    /// The segment whose lock guards this one; itself, where it stands alone; 0: not in use.
    locked_by: AtomicU32,
    /// Guards the entries of the segments that name this one in `locked_by`. Held for lookups
    /// and updates, for copying one page, and while a page of which nothing is remembered is
    /// given zeros; never over a codec.
    lock: UnsafeCell<R>,
    /// Page list I4.
    pub(crate) committed: Word,
    pub(crate) content: Word,
    /// The account that counts along, or 0.
    pub(crate) account: Word,
    /// How many VMOs and snapshots it guards, where it is nothing but their lock (`vmo/family.rs`).
    pub(crate) members: Word,
    /// Not 0: the pages are of a latency-sensitive VMO, and are never compressed.
    pub(crate) latency_sensitive: Word,
    /// Not 0: the pages are of a pager-backed VMO.
    pub(crate) pager_backed: Word,
    /// Which piece of its page list this is; its place in the directory (`vmo/directory.rs`).
    pub(crate) number: Word,
    pub(crate) left: Word,
    pub(crate) right: Word,
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

impl<R: RawMutex> Segment<R> {
    pub(crate) fn lock(&self) -> &R {
        // SAFETY: only `reset_lock` writes the cell, and its caller promises to be alone.
        unsafe { &*self.lock.get() }
    }

    /// Empties a segment that is guarded by the lock of `locked_by` from now on.
    pub(crate) fn clear(&self, locked_by: SegmentId, number: u32) {
        let words = [
            &self.committed,
            &self.content,
            &self.account,
            &self.members,
            &self.latency_sensitive,
            &self.pager_backed,
            &self.left,
            &self.right,
        ];
        words.into_iter().for_each(|word| word.set(0));
        self.number.set(number);
        for leaf in &self.leaves {
            leaf.store(0, Relaxed);
        }
        self.locked_by.store(locked_by, Release);
    }

    /// Whose lock guards this one.
    pub(crate) fn locked_by(&self) -> SegmentId {
        self.locked_by.load(Acquire)
    }

    /// The segment is in use no more. Under its lock.
    pub(crate) fn retire(&self) {
        self.locked_by.store(0, Release);
    }

    /// The word that names leaf `at` of the segment.
    pub(crate) fn slot(&self, at: u32) -> &AtomicU32 {
        &self.leaves[at as usize]
    }

    /// The numbers of the leaves that there are.
    pub(crate) fn leaf_numbers(&self) -> impl Iterator<Item = u32> {
        let numbers = self.leaves.iter().map(|leaf| leaf.load(Relaxed));
        numbers.filter(|&leaf| leaf != 0)
    }

    /// The number of the leaf of page `index`; 0 if there is none.
    pub(crate) fn leaf_number(&self, index: PageIndex) -> u32 {
        self.leaves[(index / LEAF_PAGES) as usize].load(Acquire)
    }

    /// The owner that an object stored for page `index` names. Its leaf is there.
    pub(crate) fn owner(&self, index: PageIndex) -> Owner {
        Owner(self.leaf_number(index) * LEAF_PAGES + index % LEAF_PAGES)
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

/// 64 entries of a page list.
#[repr(C)]
pub(crate) struct Leaf {
    pub(crate) entries: [AtomicU64; LEAF_PAGES as usize],
    /// Pages that the host is passing over while it takes a run out: none of them may be put in
    /// place now (see `compress`). Set under the VMO's lock, never for a request.
    pub(crate) claimed: AtomicU64,
    link: AtomicU32,
    pub(crate) live: Word,
    /// Page list I1: the segment, times the leaves of one, plus the place among them.
    home: AtomicU32,
    /// The [`Counts`] of these pages, or 0.
    pub(crate) counts: Word,
}

// SAFETY: atomics; zero is valid.
unsafe impl Zeroable for Leaf {}

impl Link for Leaf {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl Leaf {
    /// Where the leaf hangs: segment and place among its leaves. Read without a lock it may be out
    /// of date.
    pub(crate) fn home(&self) -> Option<(SegmentId, u32)> {
        let home = self.home.load(Relaxed);
        let (segment, at) = (home / LEAVES as u32, home % LEAVES as u32);
        (segment != 0).then_some((segment, at))
    }

    pub(crate) fn set_home(&self, segment: SegmentId, at: u32) {
        self.home.store(segment * LEAVES as u32 + at, Relaxed);
    }

    /// The leaf, whose entries are all empty, hangs nowhere.
    pub(crate) fn orphan(&self) {
        debug_assert_eq!((self.live.get(), self.counts.get()), (0, 0));
        self.home.store(0, Relaxed);
        self.claimed.store(0, Relaxed);
    }
}

/// A counter for each page of a leaf: how many VMOs share an entry of a snapshot, or how often a
/// page is pinned. Beside the leaf, since few need any. The counter of an entry that is empty is 0.
#[repr(C)]
pub(crate) struct Counts {
    link: AtomicU32,
    of: [AtomicU16; LEAF_PAGES as usize],
}

/// What a counter can hold. A page has no more sharers than there are snapshots in its family, which are no
/// more than this, and no more pins than [`MAX_PINS`](crate::vm::vmo::MAX_PINS).
pub(crate) const MAX_COUNT: u32 = u16::MAX as u32;

// SAFETY: atomics; zero is valid.
unsafe impl Zeroable for Counts {}

impl Link for Counts {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl Counts {
    /// The counter of a page.
    pub(crate) fn get(&self, index: PageIndex) -> u32 {
        self.of[(index % LEAF_PAGES) as usize].load(Relaxed).into()
    }

    /// Sets the counter of a page, under the VMO's lock.
    pub(crate) fn set(&self, index: PageIndex, count: u32) {
        let count = u16::try_from(count).expect("at most MAX_COUNT");
        self.of[(index % LEAF_PAGES) as usize].store(count, Relaxed);
    }

    /// Sets all counters to 0.
    pub(crate) fn clear(&self) {
        for count in &self.of {
            count.store(0, Relaxed);
        }
    }
}
