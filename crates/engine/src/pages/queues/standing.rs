//! Where a page stands, and moving it by its owner's word.

use super::number::*;
use super::{GENERATIONS, LockedQueues, Queues};
use crate::machine::lock::HeldRanks;
use crate::pages::entry::Entry;
pub use crate::pages::page::Queue;
use crate::pages::page::{ALWAYS_NEED, FROM_ZERO, NO_QUEUE, PAGER_BACKED};
use crate::pages::page_list::PageList;
use crate::{Engine, Host, PageIndex, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use lock_api::RawMutex;

/// Where a page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the generation of this age; 0 is the newest.
    Generation(usize),
    /// Older than all generations.
    Isolated,
    /// Chosen by random debug compression.
    Picked,
    /// Anonymous, where such pages are not reclaimed.
    NotReclaimed,
    /// Where its owner, or a failure, has put it.
    In(Queue),
    /// In no queue: it is being taken out in this moment.
    Leaving,
}

/// What an owner says of a page besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Its content can be had again from a pager.
    PagerBacked,
    /// It will be needed: it is passed over, and made young, unless memory is critical.
    AlwaysNeed,
}

/// What becomes of a [`Mark`] of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// The page has it from now on.
    Set,
    /// The page has it no longer.
    Clear,
}

impl Queues {
    /// Takes over what the tunables say of anonymous pages and of copies of the zero page.
    pub(crate) fn reclaim_kinds(&mut self, anonymous: bool, zero_forks: bool) {
        (self.reclaim_anonymous, self.reclaim_zero_forks) = (anonymous, zero_forks && anonymous);
    }
}

impl<R: RawMutex + HeldRanks> LockedQueues<'_, R> {
    /// Moves a record to a queue, as its youngest. `false`: the page is being taken out.
    pub(crate) fn move_to(&mut self, record: u32, to: Queue) -> bool {
        if self.records.get(record).queue() == NO_QUEUE {
            return false;
        }
        self.remove(record);
        self.push_to(record, to);
        true
    }

    /// Puts a record that is in no queue into one.
    pub(crate) fn push_to(&mut self, record: u32, to: Queue) {
        if to == Queue::ZeroFork {
            self.records.get(record).set_mark(FROM_ZERO, true);
        }
        let queue = match to {
            Queue::Reclaim => return self.push_newest(record),
            Queue::ZeroFork if self.reclaim_zero_forks => return self.push_newest(record),
            Queue::DontNeed => DONT_NEED,
            Queue::Failed => FAILED,
            Queue::ZeroFork => ZERO_FORK,
            Queue::HighPriority => HIGH_PRIORITY,
            Queue::Wired => WIRED,
            Queue::Dirty => DIRTY,
        };
        if queue == DONT_NEED {
            // The later word counts.
            self.records.get(record).set_mark(ALWAYS_NEED, false);
        }
        self.push(record, queue);
    }

    pub(crate) fn standing(&self, record: u32) -> Standing {
        match self.records.get(record).queue() {
            slot @ 0..GENERATIONS => Standing::Generation(self.age_of(slot)),
            FAILED => Standing::In(Queue::Failed),
            DONT_NEED => Standing::In(Queue::DontNeed),
            ISOLATED => Standing::Isolated,
            PICKED => Standing::Picked,
            ZERO_FORK => Standing::In(Queue::ZeroFork),
            HIGH_PRIORITY => Standing::In(Queue::HighPriority),
            WIRED => Standing::In(Queue::Wired),
            DIRTY => Standing::In(Queue::Dirty),
            NOT_RECLAIMED => Standing::NotReclaimed,
            _ => Standing::Leaving,
        }
    }

    /// Lets up to `at_once` pages that were not reclaimed so far in among the others, if they are
    /// reclaimed now. `false`: more are left.
    pub(crate) fn let_in(&mut self, at_once: u32) -> bool {
        let kinds = [
            (self.reclaim_anonymous, NOT_RECLAIMED),
            (self.reclaim_zero_forks, ZERO_FORK),
        ];
        let mut left = at_once;
        for (_, queue) in kinds.into_iter().filter(|&(reclaimed, _)| reclaimed) {
            while self.lists[queue].pages > 0 {
                if left == 0 {
                    return false;
                }
                left -= 1;
                let record = self.lists[queue].oldest;
                self.remove(record);
                self.push_newest(record);
            }
        }
        true
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Where a page stands; `None` if it is not in place.
    pub fn standing(&self, segment: SegmentId, index: PageIndex) -> Option<Standing> {
        let list = self.page_list(segment);
        let Entry::Page(record) = list.get(index) else {
            return None;
        };
        Some(self.queues.lock().standing(record))
    }

    /// Moves a page that is in place to another queue, as its youngest. `false`: it is not in
    /// place, or is being taken out in this moment; nothing was done.
    pub fn move_page(&self, segment: SegmentId, index: PageIndex, to: Queue) -> bool {
        let list = self.page_list(segment);
        self.move_page_in(&list, index, to)
    }

    /// The same under the VMO's lock.
    pub(crate) fn move_page_in(&self, list: &PageList<'_, H>, index: PageIndex, to: Queue) -> bool {
        let Entry::Page(record) = list.get(index) else {
            return false;
        };
        self.queues.lock().move_to(record, to)
    }

    /// Sets a mark of a page, or takes it from it. `false`: it is not in place.
    pub fn mark_page(
        &self,
        segment: SegmentId,
        index: PageIndex,
        mark: Mark,
        marking: Marking,
    ) -> bool {
        let list = self.page_list(segment);
        self.mark_page_in(&list, index, mark, marking)
    }

    /// The same under the VMO's lock.
    pub(crate) fn mark_page_in(
        &self,
        list: &PageList<'_, H>,
        index: PageIndex,
        mark: Mark,
        marking: Marking,
    ) -> bool {
        let Entry::Page(record) = list.get(index) else {
            return false;
        };
        let bit = match mark {
            Mark::PagerBacked => PAGER_BACKED,
            Mark::AlwaysNeed => ALWAYS_NEED,
        };
        let on = marking == Marking::Set;
        let mut queues = self.queues.lock();
        let page = queues.record(record);
        let changed = page.has(bit) != on;
        page.set_mark(bit, on);
        let kind_changed = changed && mark == Mark::PagerBacked;
        if kind_changed && matches!(queues.standing(record), Standing::NotReclaimed) {
            queues.move_to(record, Queue::Reclaim);
        }
        if changed && mark == Mark::AlwaysNeed && on {
            queues.touch(record);
        }
        true
    }
}
