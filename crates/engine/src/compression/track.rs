//! Records for pages and markers that begin or end without content being compressed or restored.
//!
//! A page in place has a record; an entry whose content is away keeps one reserved, so that a
//! restore never finds none. The VMO layer takes the record first, then asks the machine for a
//! frame, then writes the entry: what can fail comes before what cannot.

use crate::compression::restore::Fate;
use crate::figures::counters::add;
use crate::machine::host::Host;
use crate::pages::entry::Entry;
use crate::pages::page::PAGER_BACKED;
use crate::pages::page_list::{Entries, PageList};
use crate::pages::queues::standing::Queue;
use crate::pages::tables::Growth;
use crate::{Engine, PageIndex, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::Ordering::Relaxed;

/// A record that stands in no queue, for a page that is about to be put in place.
#[must_use = "attach it or give it back"]
pub(crate) struct Fresh(u32);

/// What a page holds when it gets its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Zeros.
    Zeros,
    /// Content.
    Content,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Starts to track a page that is in place, or that has just been put in place, and of
    /// which nothing is remembered so far. Tables may not grow on a fault. In a stable section, or
    /// before the page's memory is registered. `false`: it was tracked, or there is no memory.
    pub fn track_known(
        &self,
        host: &H,
        segment: SegmentId,
        index: PageIndex,
        growth: Growth,
    ) -> bool {
        if !self.tables.ensure_leaf(host, segment, index, growth) {
            add(&self.counters.no_metadata, 1);
            return false;
        }
        let list = self.page_list(segment);
        list.get(index) == Entry::Empty && self.track_in(host, &list, segment, index, growth)
    }

    /// Gives the empty entry of a page that is in place a record; its leaf is there.
    pub(crate) fn track_in(
        &self,
        host: &H,
        list: &PageList<'_, H>,
        segment: SegmentId,
        index: PageIndex,
        growth: Growth,
    ) -> bool {
        let mut queues = self.queues.lock();
        if growth == Growth::Allowed && !queues.can_track() {
            let wanted = queues.records_wanted(1);
            queues.reserve(host, wanted + 1);
        }
        let record = if queues.can_track() {
            queues.begin()
        } else {
            None
        };
        let Some(record) = record else {
            add(&self.counters.no_metadata, 1);
            return false;
        };
        self.queues.record(record).set_backlink(segment, index);
        queues.push_to(record, list.queue());
        drop(queues);
        list.set(index, Entry::Page(record));
        true
    }

    /// Has a record ready for one page more: tables may grow. `false`: no memory.
    pub(crate) fn reserve_record(&self, host: &H) -> bool {
        let queues = self.queues.lock();
        let wanted = queues.records_wanted(2);
        queues.reserve(host, wanted)
    }

    /// A record, if there is one that is not reserved.
    pub(crate) fn take_record(&self) -> Option<Fresh> {
        let mut queues = self.queues.lock();
        if queues.can_track() {
            queues.begin().map(Fresh)
        } else {
            None
        }
    }

    /// The record that is reserved for a marker, which is to become a page.
    pub(crate) fn take_record_of_marker(&self) -> Option<Fresh> {
        self.queues.lock().bring_back().map(Fresh)
    }

    /// A record is not needed after all.
    pub(crate) fn give_record(&self, record: Fresh) {
        self.queues.lock().give(record.0);
    }

    /// The marker whose record it was stays one.
    pub(crate) fn give_record_of_marker(&self, record: Fresh) {
        self.queues.lock().send_away(record.0);
    }

    /// The page at this place, just put there, has this record. The VMO's lock is held.
    pub(crate) fn attach(
        &self,
        list: &Entries<'_, H::RawLock>,
        (segment, index): (SegmentId, PageIndex),
        record: Fresh,
        holds: Holds,
    ) {
        let mut queues = self.queues.lock();
        let page = self.queues.record(record.0);
        page.set_backlink(segment, index);
        page.set_mark(PAGER_BACKED, list.is_pager_backed());
        let queue = match list.queue() {
            Queue::Reclaim if holds == Holds::Zeros => Queue::ZeroFork,
            queue => queue,
        };
        queues.push_to(record.0, queue);
        drop(queues);
        if list.get(index) == Entry::Zero {
            self.counters.drop_marker(Entry::Zero);
        }
        list.set(index, Entry::Page(record.0));
    }

    /// Makes an empty entry a zero marker, whose record is `reserved`.
    pub(crate) fn mark_zero(
        &self,
        list: &Entries<'_, H::RawLock>,
        index: PageIndex,
        reserved: Fresh,
    ) {
        debug_assert_eq!(list.get(index), Entry::Empty);
        self.give_record_of_marker(reserved);
        self.counters.add_marker(Entry::Zero);
        list.set(index, Entry::Zero);
    }

    /// Makes an entry a zero marker, giving up what it holds. A page's frame is the caller's
    /// business. `false`: the entry was poisoned, and there is no record to reserve.
    pub(crate) fn blank(&self, host: &H, list: &Entries<'_, H::RawLock>, index: PageIndex) -> bool {
        match list.get(index) {
            Entry::Zero => return true,
            Entry::Page(record) => {
                let mut queues = self.queues.lock();
                queues.remove(record);
                queues.send_away(record);
            }
            Entry::Compressed(reference) => self.free_stored(host, reference, Fate::Dropped),
            marker @ Entry::SameFilled(_) => self.counters.drop_marker(marker),
            // The compressor will find its temporary reference gone and drop the result.
            Entry::Temporary(_) => {}
            // The worker frees the reference (restore I1).
            Entry::Request(worker) => {
                self.targets[worker as usize].cancelled.store(true, Relaxed);
            }
            Entry::Empty | Entry::Poisoned | Entry::ZeroInterval(..) => {
                let Some(Fresh(record)) = self.take_record() else {
                    return false;
                };
                self.queues.lock().send_away(record);
            }
        }
        self.counters.add_marker(Entry::Zero);
        list.set(index, Entry::Zero);
        true
    }
}
