//! Page lists, in segments: from the index of a page in its segment to its entry.
//!
//! The page list of a VMO is made of segments (`segment.rs`), of which only those exist that were
//! needed. A host that maps fixed windows, as the Linux runtime, uses single segments. The segments of
//! all VMOs that share pages by copy-on-write are guarded by one lock: whoever holds it may look
//! through all of them, and no order between locks of VMOs is needed.
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
//! A leaf stays with its segment once it was needed (552 bytes for 256 KiB of memory that was
//! managed at one time): entries come and go far too often to give leaves back. VMOs give theirs
//! back when a range of them is emptied (`vmo`).

use crate::machine::lock::{self, HeldRanks, rank};
use crate::pages::entry::{Entry, Whereabouts};
use crate::pages::page::Queue;
use crate::pages::segment::{Counts, Leaf, Owner, Segment};
use crate::pages::tables::Tables;
use crate::{Engine, Host, LEAF_PAGES, PageIndex, SEGMENT_PAGES, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use lock_api::RawMutex;

/// The entries of one segment, while the lock that guards them is held.
pub(crate) struct Entries<'a, R> {
    segment: &'a Segment<R>,
    tables: &'a Tables<R>,
}

impl<'a, R: RawMutex + HeldRanks + Sync> Entries<'a, R> {
    /// The entries of a segment of which the caller holds the lock, or which it is alone with.
    pub(crate) fn new(tables: &'a Tables<R>, segment: SegmentId) -> Self {
        Self {
            segment: tables.segment(segment),
            tables,
        }
    }

    fn leaf(&self, index: PageIndex) -> Option<&'a Leaf> {
        match self.segment.leaf_number(index) {
            0 => None,
            leaf => Some(self.tables.leaf(leaf)),
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
        self.leaf(index).map_or(0, |leaf| leaf.live.get())
    }

    /// The first page from `index` on whose entry is not empty.
    pub(crate) fn next(&self, index: PageIndex) -> Option<(PageIndex, Entry)> {
        let mut index = index;
        while index < SEGMENT_PAGES {
            let end = index - index % LEAF_PAGES + LEAF_PAGES;
            if self.live(index) > 0
                && let Some(leaf) = self.leaf(index)
            {
                let bits =
                    |index: PageIndex| leaf.entries[(index % LEAF_PAGES) as usize].load(Relaxed);
                let found = (index..end).find(|&index| bits(index) != 0);
                if let Some(index) = found {
                    return Some((index, Entry::decode(bits(index))));
                }
            }
            index = end;
        }
        None
    }

    /// The counters of the leaf of `index`, if it has any.
    pub(crate) fn counts(&self, index: PageIndex) -> Option<&Counts> {
        self.tables.counts_of(self.leaf(index)?)
    }

    /// The counter of page `index`: 0 where there are none.
    pub(crate) fn count(&self, index: PageIndex) -> u32 {
        self.counts(index).map_or(0, |counts| counts.get(index))
    }

    /// Sets the counter of page `index`. A count needs counters.
    pub(crate) fn set_count(&self, index: PageIndex, count: u32) {
        match self.counts(index) {
            Some(counts) => counts.set(index, count),
            None => assert_eq!(count, 0, "no counters for this page"),
        }
    }

    /// The owner that the stored object of page `index` names.
    pub(crate) fn owner(&self, index: PageIndex) -> Owner {
        self.segment.owner(index)
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
        if let (true, false) | (false, true) = (old == Entry::Empty, entry == Entry::Empty) {
            let live = leaf.live.get();
            leaf.live.set(if old == Entry::Empty {
                live + 1
            } else {
                live - 1
            });
        }
        self.recount(old, entry);
    }

    /// An entry of this segment is another than it was: I4.
    pub(crate) fn recount(&self, old: Entry, new: Entry) {
        let change = |of: fn(Entry) -> bool| i32::from(of(new)) - i32::from(of(old));
        let (committed, content) = (change(Entry::is_committed), change(Entry::is_content));
        if (committed, content) == (0, 0) {
            return;
        }
        let segment = self.segment;
        let counts = [(&segment.committed, committed), (&segment.content, content)];
        for (count, change) in counts {
            count.set(count.get().wrapping_add_signed(change));
        }
        if let Some(account) = self.tables.account_of(segment) {
            account.change(committed.into(), content.into());
        }
    }

    /// The queue that pages of this segment enter.
    pub(crate) fn queue(&self) -> Queue {
        match self.segment.latency_sensitive.get() {
            0 => Queue::Reclaim,
            _ => Queue::HighPriority,
        }
    }

    /// Whether a pager supplies the pages of this segment.
    pub(crate) fn is_pager_backed(&self) -> bool {
        self.segment.pager_backed.get() != 0
    }

    /// Pages held by entries of this segment (I4).
    pub(crate) fn committed(&self) -> u32 {
        self.segment.committed.get()
    }

    /// Entries of this segment that remember anything but zeros (I4).
    pub(crate) fn content(&self) -> u32 {
        self.segment.content.get()
    }
}

/// Holds the lock of a VMO, and of all that share pages with it.
pub(crate) struct Held<'a, H: Host> {
    guard: &'a Segment<H::RawLock>,
    id: SegmentId,
}

impl<H: Host> Held<'_, H> {
    /// The segment in which the lock lies.
    pub(crate) fn id(&self) -> SegmentId {
        self.id
    }
}

impl<H: Host> Drop for Held<'_, H> {
    fn drop(&mut self) {
        // SAFETY: locked when this was made.
        unsafe { self.guard.lock().unlock() };
        lock::give::<H::RawLock>(rank::VMO);
    }
}

/// The entries of one segment, and the lock that guards them.
pub(crate) struct PageList<'a, H: Host> {
    entries: Entries<'a, H::RawLock>,
    held: Held<'a, H>,
}

impl<'a, H: Host> PageList<'a, H> {
    /// The lock alone.
    pub(crate) fn into_held(self) -> Held<'a, H> {
        self.held
    }
}

impl<'a, H: Host> Deref for PageList<'a, H> {
    type Target = Entries<'a, H::RawLock>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Locks `segment`, which is in use, and gives its page list.
    pub(crate) fn page_list(&self, segment: SegmentId) -> PageList<'_, H> {
        self.page_list_if_there(segment).expect("a segment in use")
    }

    /// The same for a segment that may have been freed, or freed and used again for something else.
    pub(crate) fn page_list_if_there(&self, segment: SegmentId) -> Option<PageList<'_, H>> {
        loop {
            let guard = self.tables.segment(segment).locked_by();
            if guard == 0 {
                return None;
            }
            let held = self.hold(guard);
            if self.tables.segment(segment).locked_by() == guard {
                return Some(self.list_of(held, segment));
            }
        }
    }

    /// The same where that needs no waiting; what the caller holds does not matter then.
    pub(crate) fn try_page_list(&self, segment: SegmentId) -> Option<PageList<'_, H>> {
        let id = self.tables.segment(segment).locked_by();
        if id == 0 {
            return None;
        }
        let guard = self.tables.segment(id);
        if !guard.lock().try_lock() {
            return None;
        }
        lock::take_tried::<H::RawLock>(rank::VMO);
        let held = Held { guard, id };
        let is_it = self.tables.segment(segment).locked_by() == id;
        is_it.then(|| self.list_of(held, segment))
    }

    /// Takes the lock that lies in segment `id`.
    pub(crate) fn hold(&self, id: SegmentId) -> Held<'_, H> {
        lock::take::<H::RawLock>(rank::VMO);
        let guard = self.tables.segment(id);
        guard.lock().lock();
        Held { guard, id }
    }

    /// The page list of a segment that the held lock guards.
    pub(crate) fn list_of<'a>(&'a self, held: Held<'a, H>, segment: SegmentId) -> PageList<'a, H> {
        PageList {
            entries: self.entries(&held, segment),
            held,
        }
    }

    /// The entries of a segment that the held lock guards.
    pub(crate) fn entries(
        &self,
        held: &Held<'_, H>,
        segment: SegmentId,
    ) -> Entries<'_, H::RawLock> {
        let entries = Entries::new(&self.tables, segment);
        debug_assert_eq!(
            entries.segment.locked_by(),
            held.id,
            "guarded by another lock"
        );
        entries
    }

    /// Keeps `leaves` leaves and records for `pages` more pages ready, so that faults which need
    /// one find it without growing.
    pub fn prepare_for(&self, host: &H, leaves: u32, pages: u32) -> bool {
        let leaves = self.tables.reserve_leaves(host, leaves);
        let queues = self.queues.lock();
        leaves && queues.reserve(host, queues.records_wanted(pages))
    }

    /// The entry of a page, read without a lock: for figures and for the child of a fork.
    pub fn entry(&self, segment: SegmentId, index: PageIndex) -> Entry {
        match self.tables.leaf_of(segment, index) {
            None => Entry::Empty,
            Some(leaf) => Entry::decode(leaf.entries[(index % LEAF_PAGES) as usize].load(Relaxed)),
        }
    }

    /// The pages of the leaf of `index`, a bit each, of which something is remembered besides that they are in place. Read
    /// without a lock, as [`Engine::entry`] is.
    pub fn remembered(&self, segment: SegmentId, index: PageIndex) -> u64 {
        let Some(leaf) = self.tables.leaf_of(segment, index) else {
            return 0;
        };
        let entries = leaf.entries.iter().enumerate();
        entries.fold(0, |pages, (n, entry)| {
            let entry = Entry::decode(entry.load(Relaxed));
            let is_remembered = !matches!(entry, Entry::Empty | Entry::Page(_));
            pages | u64::from(is_remembered) << n
        })
    }

    /// Where the page is. Takes the list's lock: what is found at rest was so, with all that was done before, when a host
    /// that has been told since not to take it looks.
    pub fn whereabouts(&self, segment: SegmentId, index: PageIndex) -> Whereabouts {
        let Some(list) = self.page_list_if_there(segment) else {
            return Whereabouts::AtRest;
        };
        if list.claimed(index) & 1 << (index % LEAF_PAGES) != 0 {
            return Whereabouts::BeingTaken;
        }
        match list.get(index) {
            Entry::Empty | Entry::Page(_) => Whereabouts::AtRest,
            _ => Whereabouts::Away,
        }
    }

    /// The pages of the leaf of `index` of which something is remembered that a touch would not find without the engine:
    /// all but those that are in place, or nowhere, or all zeros, and rest. For hosts that stop looking after memory.
    pub fn depend_on_us(&self, segment: SegmentId, index: PageIndex) -> u64 {
        let Some(list) = self.page_list_if_there(segment) else {
            return 0;
        };
        let base = index - index % LEAF_PAGES;
        let mut depend = list.claimed(index);
        for n in 0..LEAF_PAGES {
            if !matches!(
                list.get(base + n),
                Entry::Empty | Entry::Page(_) | Entry::Zero
            ) {
                depend |= 1 << n;
            }
        }
        depend
    }

    /// Whether the page is claimed by a run that is being taken out.
    pub(crate) fn is_claimed(&self, segment: SegmentId, index: PageIndex) -> bool {
        self.tables
            .leaf_of(segment, index)
            .is_some_and(|leaf| leaf.claimed.load(Acquire) & 1 << (index % LEAF_PAGES) != 0)
    }

    /// Pages held by entries of a segment, and entries that remember anything but zeros: what the
    /// RFC calls committed and content, in pages.
    pub fn committed_and_content(&self, segment: SegmentId) -> (u32, u32) {
        let list = self.page_list(segment);
        (list.committed(), list.content())
    }

    /// Whether page `index` of `segment` lies in a leaf that exists.
    pub fn has_leaf(&self, segment: SegmentId, index: PageIndex) -> bool {
        self.tables.segment(segment).leaf_number(index) != 0
    }
}
