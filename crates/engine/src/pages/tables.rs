//! The tables that page lists are made of, and the lock under which they grow and shrink.
//!
//! ```text
//!  Tables   segments │ leaves │ counts │ accounts      pools, each addressed by number; 0 is none
//! ```
//!
//! Only taking from a pool, giving back and growing need the *tables lock*. What a segment, a leaf or a table of
//! counters says belongs to the lock of its VMO, which the caller of everything below that changes one holds.

use crate::machine::lock::{HeldRanks, Lock, rank};
use crate::pages::account::Account;
use crate::pages::segment::{Counts, LEAVES, Leaf, Owner, Segment};
use crate::{LEAF_PAGES, PageIndex, SegmentId};
use coldpress_arena::{ChunkSource, Pool};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use lock_api::RawMutex;

/// Whether a table may grow to serve a request. A fault never lets one grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It may: the caller can wait for memory.
    Allowed,
    /// Only what is ready is taken.
    Forbidden,
}

/// Segments, leaves, tables of counters and accounts.
pub(crate) struct Tables<R> {
    segments: Pool<Segment<R>>,
    leaves: Pool<Leaf>,
    counts: Pool<Counts>,
    accounts: Pool<Account>,
    /// Guards what is free of each pool; a leaf of the order. Held while a pool grows.
    lock: Lock<R, (), { rank::LEAF }>,
}

/// How many of each are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InUse {
    pub(crate) segments: u32,
    pub(crate) leaves: u32,
    pub(crate) counts: u32,
}

/// Bytes that have been touched of each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Touched {
    pub(crate) page_lists: usize,
    pub(crate) counts: usize,
    pub(crate) accounts: usize,
}

impl<R: RawMutex + HeldRanks + Sync> Tables<R> {
    pub(crate) const fn new() -> Self {
        Self {
            segments: Pool::new(),
            leaves: Pool::new(),
            counts: Pool::new(),
            accounts: Pool::new(),
            lock: Lock::new(()),
        }
    }

    pub(crate) fn in_use(&self) -> InUse {
        InUse {
            segments: self.segments.in_use(),
            leaves: self.leaves.in_use(),
            counts: self.counts.in_use(),
        }
    }

    pub(crate) fn touched(&self) -> Touched {
        Touched {
            page_lists: self.segments.touched_bytes() + self.leaves.touched_bytes(),
            counts: self.counts.touched_bytes(),
            accounts: self.accounts.touched_bytes(),
        }
    }

    /// Where the tables lock lies, for hosts that trace theirs by address.
    pub(crate) fn lock_address(&self) -> usize {
        self.lock.address()
    }

    /// Makes all locks free again: the tables lock, and those that lie in segments.
    ///
    /// # Safety
    /// No other thread uses the tables.
    pub(crate) unsafe fn reset_locks(&self) {
        // SAFETY: as the caller promises.
        unsafe {
            self.lock.reset();
            for id in 1..=self.segments.handed_out() {
                self.segments.get(id).reset_lock();
            }
        }
    }
}

/// Segments.
impl<R: RawMutex + HeldRanks + Sync> Tables<R> {
    pub(crate) fn segment(&self, id: SegmentId) -> &Segment<R> {
        self.segments.get(id)
    }

    /// The highest number that a segment has, or had.
    pub(crate) fn last_segment(&self) -> SegmentId {
        self.segments.handed_out()
    }

    /// Has so many segments ready. `false`: no memory.
    pub(crate) fn reserve_segments(&self, source: &impl ChunkSource, segments: u32) -> bool {
        let _held = self.lock.lock();
        self.segments.reserve(source, segments)
    }

    /// An empty segment, guarded by its own lock. `None`: no memory.
    pub(crate) fn create_segment(&self, source: &impl ChunkSource) -> Option<SegmentId> {
        let _held = self.lock.lock();
        if !self.segments.reserve(source, 1) {
            return None;
        }
        let id = self.segments.take()?;
        self.segments.get(id).clear(id, 0);
        Some(id)
    }

    /// An empty segment of those that are ready, guarded by the lock of `locked_by`; `None` there: by its own.
    pub(crate) fn take_segment(
        &self,
        locked_by: Option<SegmentId>,
        number: u32,
    ) -> Option<SegmentId> {
        let id = {
            let _held = self.lock.lock();
            self.segments.take()?
        };
        let locked_by = locked_by.unwrap_or(id);
        self.segments.get(id).clear(locked_by, number);
        Some(id)
    }

    /// Gives a segment back that was retired.
    pub(crate) fn give_segment(&self, id: SegmentId) {
        debug_assert_eq!(self.segment(id).locked_by(), 0, "a segment in use");
        let _held = self.lock.lock();
        self.segments.give(id);
    }
}

/// Leaves.
impl<R: RawMutex + HeldRanks + Sync> Tables<R> {
    pub(crate) fn leaf(&self, number: u32) -> &Leaf {
        self.leaves.get(number)
    }

    /// The leaf of a page, if there is one.
    pub(crate) fn leaf_of(&self, segment: SegmentId, index: PageIndex) -> Option<&Leaf> {
        match self.segment(segment).leaf_number(index) {
            0 => None,
            number => Some(self.leaves.get(number)),
        }
    }

    /// Has so many leaves ready. `false`: no memory.
    pub(crate) fn reserve_leaves(&self, source: &impl ChunkSource, leaves: u32) -> bool {
        let _held = self.lock.lock();
        self.leaves.reserve(source, leaves)
    }

    /// Makes sure that `segment` has a leaf for page `index`. `false`: no memory.
    pub(crate) fn ensure_leaf(
        &self,
        source: &impl ChunkSource,
        segment: SegmentId,
        index: PageIndex,
        growth: Growth,
    ) -> bool {
        let slot = self.segment(segment).slot(index / LEAF_PAGES);
        if slot.load(Acquire) != 0 {
            return true;
        }
        let _held = self.lock.lock();
        if slot.load(Acquire) != 0 {
            return true;
        }
        if growth == Growth::Allowed && !self.leaves.reserve(source, 1) {
            return false;
        }
        match self.leaves.take() {
            Some(leaf) => {
                self.leaves.get(leaf).set_home(segment, index / LEAF_PAGES);
                slot.store(leaf, Release);
                true
            }
            None => false,
        }
    }

    /// Where the owner of a stored object is: segment and index. Whether the object really is there only the
    /// entry tells.
    pub(crate) fn home_of(&self, owner: Owner) -> Option<(SegmentId, PageIndex)> {
        let (leaf, place) = (owner.0 / LEAF_PAGES, owner.0 % LEAF_PAGES);
        if leaf == 0 || leaf > self.leaves.handed_out() {
            return None;
        }
        let (segment, at) = self.leaves.get(leaf).home()?;
        Some((segment, at * LEAF_PAGES + place))
    }

    /// Gives a leaf back whose entries are all empty, with its counters.
    pub(crate) fn free_leaf(&self, segment: SegmentId, at: u32) {
        let slot = self.segment(segment).slot(at);
        let number = slot.load(Relaxed);
        if number != 0 {
            self.free_counts(segment, at);
            slot.store(0, Relaxed);
            self.leaves.get(number).orphan();
            let _held = self.lock.lock();
            self.leaves.give(number);
        }
    }

    /// Hangs a leaf, as it is, into another segment that has none at its place.
    pub(crate) fn move_leaf(&self, from: SegmentId, to: SegmentId, at: u32) {
        let slot = |segment| self.segment(segment).slot(at);
        debug_assert_eq!(slot(to).load(Relaxed), 0, "there is a leaf");
        let number = slot(from).load(Relaxed);
        slot(from).store(0, Relaxed);
        self.leaves.get(number).set_home(to, at);
        slot(to).store(number, Release);
    }
}

/// Counters of leaves.
impl<R: RawMutex + HeldRanks + Sync> Tables<R> {
    /// The counters of a leaf, if it has any.
    pub(crate) fn counts_of(&self, leaf: &Leaf) -> Option<&Counts> {
        match leaf.counts.get() {
            0 => None,
            counts => Some(self.counts.get(counts)),
        }
    }

    /// Has so many tables of counters ready. `false`: no memory.
    pub(crate) fn reserve_counts(&self, source: &impl ChunkSource, tables: u32) -> bool {
        let _held = self.lock.lock();
        self.counts.reserve(source, tables)
    }

    /// Has counters for the leaf of a page, which is there, from those that are ready. `false`: none is.
    pub(crate) fn ensure_counts(&self, segment: SegmentId, index: PageIndex) -> bool {
        let leaf = self.leaf_of(segment, index).expect("a leaf to count in");
        if leaf.counts.get() != 0 {
            return true;
        }
        let _held = self.lock.lock();
        self.give_counts_to(leaf)
    }

    /// Gives all leaves of `segments` that have none counters, all 0, or none of them any: how many are wanting.
    pub(crate) fn add_counts<I: Iterator<Item = SegmentId>>(
        &self,
        segments: impl Fn() -> I,
    ) -> u32 {
        let _held = self.lock.lock();
        let leaves = || segments().flat_map(|segment| self.leaves_without_counts(segment));
        let wanting = leaves().count() as u32;
        if self.counts.available() < wanting {
            return wanting;
        }
        for leaf in leaves() {
            assert!(self.give_counts_to(leaf), "as many as there were");
        }
        0
    }

    /// The leaves of a segment that have no counters.
    pub(crate) fn leaves_without_counts(&self, segment: SegmentId) -> impl Iterator<Item = &Leaf> {
        let leaves = self.segment(segment).leaf_numbers();
        let leaves = leaves.map(|leaf| self.leaves.get(leaf));
        leaves.filter(|leaf| leaf.counts.get() == 0)
    }

    /// Gives the counters of a leaf back.
    pub(crate) fn free_counts(&self, segment: SegmentId, at: u32) {
        let Some(leaf) = self.leaf_of(segment, at * LEAF_PAGES) else {
            return;
        };
        let counts = leaf.counts.get();
        if counts != 0 {
            leaf.counts.set(0);
            let _held = self.lock.lock();
            self.counts.give(counts);
        }
    }

    /// Gives the counters of all leaves of a segment back.
    pub(crate) fn free_all_counts(&self, segment: SegmentId) {
        (0..LEAVES as u32).for_each(|at| self.free_counts(segment, at));
    }

    /// With the tables lock held.
    fn give_counts_to(&self, leaf: &Leaf) -> bool {
        let Some(counts) = self.counts.take() else {
            return false;
        };
        self.counts.get(counts).clear();
        leaf.counts.set(counts);
        true
    }
}

/// Accounts.
impl<R: RawMutex + HeldRanks + Sync> Tables<R> {
    pub(crate) fn account(&self, account: u32) -> &Account {
        self.accounts.get(account)
    }

    /// The account of a segment, if it has one.
    pub(crate) fn account_of(&self, segment: &Segment<R>) -> Option<&Account> {
        match segment.account.get() {
            0 => None,
            account => Some(self.account(account)),
        }
    }

    /// A fresh account. `None`: no memory.
    pub(crate) fn new_account(&self, source: &impl ChunkSource) -> Option<u32> {
        let _held = self.lock.lock();
        if !self.accounts.reserve(source, 1) {
            return None;
        }
        let account = self.accounts.take()?;
        self.account(account).clear();
        Some(account)
    }

    pub(crate) fn give_account(&self, account: u32) {
        let _held = self.lock.lock();
        self.accounts.give(account);
    }
}
