//! Changes of the address space: memory dropped and memory moved.
//!
//! The host calls these methods while no stable section is open, so that no commit and no
//! finalisation is between "looked" and "wrote". Content that is in flight is not lost sight of:
//! a worker's target and a slot's backlink are cancelled or follow the move.

use crate::compression::restore::Fate;
use crate::figures::counters::add;
use crate::machine::host::Host;
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::pages::segment::Owner;
use crate::pages::tables::Growth;
use crate::{Engine, PageIndex, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::Ordering::Relaxed;

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Forgets the content of pages `first..end` of `segment`: they read as zeros from now on.
    pub fn decommit(&self, host: &H, segment: SegmentId, first: PageIndex, end: PageIndex) {
        let mut index = first;
        while index < end {
            let leaf_end = (index - index % crate::LEAF_PAGES + crate::LEAF_PAGES).min(end);
            let list = self.page_list(segment);
            let mut requested = 0u64;
            if list.live(index) > 0 {
                for index in index..leaf_end {
                    let entry = list.get(index);
                    self.forget(host, entry);
                    if let Entry::Request(_) = entry {
                        requested |= 1 << (index % crate::LEAF_PAGES);
                    }
                    if entry != Entry::Empty {
                        list.set(index, Entry::Empty);
                    }
                }
            }
            drop(list);
            // Nothing will be installed there: who waits for a request must look again.
            let base = index - index % crate::LEAF_PAGES;
            for n in (0..crate::LEAF_PAGES).filter(|n| requested & 1 << n != 0) {
                host.wake(segment, base + n);
            }
            index = leaf_end;
        }
    }

    /// Gives up what an entry holds; its list's lock is held.
    pub(crate) fn forget(&self, host: &H, entry: Entry) {
        match entry {
            Entry::Empty | Entry::Poisoned | Entry::ZeroInterval(..) => {}
            Entry::Page(record) => {
                let mut queues = self.queues.lock();
                queues.remove(record);
                queues.give(record);
            }
            Entry::Zero | Entry::SameFilled(_) => {
                self.counters.drop_marker(entry);
                self.queues.lock().forget_away();
            }
            Entry::Compressed(reference) => {
                self.free_stored(host, reference, Fate::Dropped);
                self.queues.lock().forget_away();
            }
            // The compressor will find its temporary reference gone and drop the result.
            Entry::Temporary(_) => self.queues.lock().forget_away(),
            // The worker frees the reference (fault I1).
            Entry::Request(worker) => {
                self.targets[worker as usize].cancelled.store(true, Relaxed);
                self.queues.lock().forget_away();
            }
        }
    }

    /// Moves the entry of page `from` of `segment` to page `to` of `to_segment`, whose entry is empty.
    /// `false`: no memory for the destination's leaf; the entry stays.
    ///
    /// Where the old place can still be touched, the host wakes whoever waits there once the whole
    /// change is carried out: a fault may have been left to a request that had put its page in
    /// place already, which then moved away before it could be seen.
    pub fn transfer(
        &self,
        host: &H,
        (segment, from): (SegmentId, PageIndex),
        (to_segment, to): (SegmentId, PageIndex),
    ) -> bool {
        if self.entry(segment, from) == Entry::Empty {
            return true;
        }
        if !self
            .tables
            .ensure_leaf(host, to_segment, to, Growth::Allowed)
        {
            add(&self.counters.no_metadata, 1);
            return false;
        }
        let list = self.page_list(segment);
        let entry = list.get(from);
        list.set(from, Entry::Empty);
        drop(list);
        let list = self.page_list(to_segment);
        // Whatever was tracked there meanwhile is not there any more.
        self.forget(host, list.get(to));
        self.follow(host, entry, (to_segment, to), list.owner(to));
        list.set(to, entry);
        drop(list);
        if let Entry::Request(_) = entry {
            // Its worker will install at the new place: who waits at the old one must look again.
            host.wake(segment, from);
        }
        true
    }

    /// Has everything that names the place of an entry name the place where it will stand.
    pub(crate) fn follow(&self, host: &H, entry: Entry, to: Place, owner: Owner) {
        match entry {
            Entry::Page(record) => {
                let _queues = self.queues.lock();
                self.queues.record(record).set_backlink(to.0, to.1);
            }
            Entry::Temporary(slot) => self.backlinks[slot.0 as usize].set(to),
            Entry::Request(worker) => self.targets[worker as usize].place.set(to),
            Entry::Compressed(reference) => self.write_owner(host, reference, owner),
            _ => {}
        }
    }
}
