//! Commit: content goes in place and the page list says so.

use crate::Engine;
use crate::compression::drivers::{self, Committed, Into, Source};
use crate::figures::counters::add;
use crate::machine::host::{Doubt, Host, Installed};
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::pages::page::PAGER_BACKED;
use crate::pages::page_list::PageList;
use crate::pages::patience::Returning;
use crate::pages::queues::LockedQueues;
use crate::pages::queues::standing::Queue;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// The end of a commit: has the host put `source` in place and writes the entry. In a stable
    /// section, and with the VMO's lock held where pages are installed under it (`list`). `None`:
    /// the address space is changing.
    pub(crate) fn put_in_place(
        &self,
        host: &H,
        worker: u16,
        list: Option<PageList<'_, H>>,
        place: Place,
        source: Source<'_>,
        into: Into,
    ) -> Option<Committed> {
        let c = &self.counters;
        let (segment, index) = place;
        let (installed, doubt) = match install(host, place, source) {
            Some(Installed::Refused) => (
                host.poison(segment, index, Doubt::Refused),
                Some(&c.refused_installs),
            ),
            Some(installed) => (installed, None),
            None => (
                host.poison(segment, index, Doubt::Damaged),
                Some(&c.corrupt),
            ),
        };
        if installed == Installed::Changing {
            return None;
        }
        let list = list.unwrap_or_else(|| self.page_list(segment));
        debug_assert_eq!(list.get(index), Entry::Request(worker));
        if installed == Installed::NoFrame {
            return Some(self.take_request_back(host, list, place, source));
        }
        let is_back = doubt.is_none() && installed != Installed::Gone;
        let entry = match self.record_again(&list, place, source, into, is_back) {
            Some(record) => Entry::Page(record),
            None if doubt.is_some() => drivers::poisoned::<H>(),
            None => Entry::Empty,
        };
        list.set(index, entry);
        drop(list);
        Some(match (installed, doubt) {
            (Installed::Gone, _) => {
                host.wake(segment, index);
                Committed::Gone
            }
            (_, Some(counter)) => {
                add(counter, 1);
                Committed::Poisoned
            }
            _ => Committed::Done,
        })
    }

    /// The host has no frame, or none was wanted: the entry holds again what it held.
    fn take_request_back(
        &self,
        host: &H,
        list: PageList<'_, H>,
        (segment, index): Place,
        source: Source<'_>,
    ) -> Committed {
        let (Source::Restored(_, entry, _) | Source::Stored(entry)) = source else {
            unreachable!("a frame was reserved for a page in staging");
        };
        if let Entry::Compressed(reference) = entry {
            self.write_owner(host, reference, list.owner(index));
        }
        list.set(index, entry);
        drop(list);
        host.wake(segment, index);
        Committed::NoFrame
    }

    /// The record of a page that was away and is in place again, in its queue. `None`: its content
    /// is gone for good, or there is no record left for it.
    fn record_again(
        &self,
        list: &PageList<'_, H>,
        (segment, index): Place,
        source: Source<'_>,
        into: Into,
        is_back: bool,
    ) -> Option<u32> {
        let mut queues = self.queues.lock();
        if !is_back {
            queues.forget_away();
            return None;
        }
        self.record_in(&mut queues, list, (segment, index), returning(source), into)
    }

    /// The record of a page that is certainly in place, under the queue lock.
    pub(super) fn record_in(
        &self,
        queues: &mut LockedQueues<'_, H::RawLock>,
        list: &PageList<'_, H>,
        (segment, index): Place,
        returning: Option<Returning>,
        into: Into,
    ) -> Option<u32> {
        let record = queues.bring_back()?;
        let page = self.queues.record(record);
        page.set_backlink(segment, index);
        page.set_mark(PAGER_BACKED, list.is_pager_backed());
        if let Some(returning) = returning {
            let most = self.tunables.second_chances() as u8;
            page.set_patience(returning.patience(queues.turnover_ns(), most));
        }
        match (list.queue(), into) {
            (Queue::Reclaim, Into::Failed) => queues.push_failed(record),
            (queue, _) => queues.push_to(record, queue),
        }
        Some(record)
    }

    /// The address space was changing: lets the change in before the next attempt. Nothing is held.
    pub(crate) fn copy_again(&self, host: &H) {
        add(&self.counters.copy_again, 1);
        self.let_changes_in(host);
    }
}

/// What is remembered of the page's past.
fn returning(source: Source<'_>) -> Option<Returning> {
    match source {
        Source::Restored(_, _, returning) => returning,
        Source::Staged(_, returning) => Some(returning),
        Source::Copied(..) | Source::Stored(_) | Source::Damaged => None,
    }
}

/// Has the host put `source` in place. `None`: there is nothing to put there.
fn install<H: Host>(host: &H, (segment, index): Place, source: Source<'_>) -> Option<Installed> {
    match source {
        Source::Restored(page, ..) => Some(host.install(segment, index, page)),
        Source::Copied(page, slot) => Some(host.install_copy(segment, index, page, slot)),
        // SAFETY: the reclaimer commits the page in its own slot, which it releases later, and
        // does not read it any more.
        Source::Staged(slot, _) => Some(unsafe { host.put_back(segment, index, slot) }),
        Source::Stored(_) => Some(Installed::NoFrame),
        Source::Damaged => None,
    }
}
