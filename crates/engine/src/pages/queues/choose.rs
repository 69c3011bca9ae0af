//! Which page goes next.

use super::number::{DONT_NEED, FAILED, ISOLATED, PICKED};
use super::{ACTIVE_GENERATIONS, GENERATIONS, LockedQueues, OLDEST_GENERATIONS, Queues};
use crate::machine::lock::HeldRanks;
use crate::pages::page::{ALWAYS_NEED, PAGER_BACKED};
use core::sync::atomic::Ordering::Relaxed;
use lock_api::RawMutex;

/// Queues outside the generations whose pages go before all others, in their order.
const OFFERED_FIRST: [usize; 3] = [PICKED, DONT_NEED, ISOLATED];

/// Pages that are passed over in one search.
const PASSED_AT_ONCE: u32 = 64;

/// Which pages a search may find.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Last known to be touched before this time.
    pub(crate) touched_before_ns: u64,
    pub(crate) anonymous: bool,
    pub(crate) pager_backed: bool,
    /// Only from this many of the oldest generations, of as many as there can be.
    pub(crate) oldest: usize,
    /// The owner's word that a page will be needed counts for nothing.
    pub(crate) ignore_hints: bool,
}

impl Wanted {
    /// What was picked at random, and whatever else is offered before all generations.
    pub(crate) const PICKED: Self = Self {
        touched_before_ns: u64::MAX,
        anonymous: true,
        pager_backed: false,
        oldest: 0,
        ignore_hints: false,
    };

    fn is_kind(&self, pager_backed: bool) -> bool {
        match pager_backed {
            true => self.pager_backed,
            false => self.anonymous,
        }
    }
}

impl Queues {
    /// Pages that may be reclaimed.
    pub(crate) fn inactive_pages(&self) -> u32 {
        self.offered().map(|queue| self.lists[queue].pages).sum()
    }

    /// Pages of the active generations.
    pub(crate) fn active_pages(&self) -> u32 {
        (0..GENERATIONS)
            .filter(|&slot| self.age_of(slot) < ACTIVE_GENERATIONS)
            .map(|slot| self.lists[slot].pages)
            .sum()
    }

    /// Pages that could not be compressed or taken.
    pub(crate) fn failed_pages(&self) -> u32 {
        self.lists[FAILED].pages
    }

    /// Inactive generations, the oldest first.
    fn inactive(&self) -> impl Iterator<Item = usize> + use<> {
        let inactive = self.generations().saturating_sub(ACTIVE_GENERATIONS);
        let oldest = self.oldest;
        (0..inactive).map(move |n| (oldest + n) % GENERATIONS)
    }

    /// Queues whose pages may be reclaimed, in the order in which they are offered.
    fn offered(&self) -> impl Iterator<Item = usize> + use<> {
        OFFERED_FIRST.into_iter().chain(self.inactive())
    }

    /// How long the page that was chosen last had not been heard of.
    pub(crate) fn turnover_ns(&self) -> u64 {
        self.turnover_ns
    }

    fn is_offered(&self, queue: usize) -> bool {
        match queue {
            0..GENERATIONS => self.age_of(queue) >= ACTIVE_GENERATIONS,
            _ => OFFERED_FIRST.contains(&queue),
        }
    }

    /// Pages that go first: the oldest generations and what is offered before them.
    pub(crate) fn oldest_pages(&self) -> u32 {
        let oldest = |&queue: &usize| {
            queue >= GENERATIONS || self.age_of(queue) + OLDEST_GENERATIONS >= GENERATIONS
        };
        let offered = self.offered().filter(oldest);
        offered.map(|queue| self.lists[queue].pages).sum()
    }
}

impl<R: RawMutex + HeldRanks> LockedQueues<'_, R> {
    /// The page that goes next among those that are wanted. Those that are passed over because
    /// of their kind go to the young end of their queue, and those that their owners always need
    /// become young: so that the next search comes further, and none takes long. With it how many were
    /// passed over for once: if none was found, but some were spared, another search may find one.
    pub(crate) fn search(&mut self, wanted: &Wanted) -> (Option<u32>, u32) {
        let mut left = PASSED_AT_ONCE;
        let mut spared = 0;
        for queue in self.offered() {
            let generation = queue < GENERATIONS;
            // The queues of hints are never closed, so these beat age.
            if generation && self.age_of(queue) + wanted.oldest < GENERATIONS
                || self.lists[queue].closed_ns > wanted.touched_before_ns
            {
                break;
            }
            for _ in 0..self.lists[queue].pages {
                let record = self.lists[queue].oldest;
                let page = self.records.get(record);
                if page.has(ALWAYS_NEED) && wanted.ignore_hints {
                    page.set_mark(ALWAYS_NEED, false);
                }
                let needed = page.has(ALWAYS_NEED);
                let is_wanted = !needed && wanted.is_kind(page.has(PAGER_BACKED));
                // What was picked, hinted at or isolated has no chances.
                let spare = is_wanted && generation && page.chances() > 0;
                if is_wanted && !spare {
                    return (Some(record), spared);
                }
                if left == 0 {
                    return (None, spared);
                }
                left -= 1;
                if spare {
                    page.use_chance();
                    spared += 1;
                }
                self.remove(record);
                match needed || spare {
                    true => self.push_newest(record),
                    false => self.push(record, queue),
                }
            }
        }
        (None, spared)
    }

    /// The same for who asks once only.
    pub(crate) fn next_victim(&mut self, wanted: &Wanted) -> Option<u32> {
        self.search(wanted).0
    }

    /// This record's page goes next: pages spend so long in place now.
    pub(crate) fn note_turnover(&mut self, record: u32, now_ns: u64) {
        let queue = self.records.get(record).queue();
        if queue < GENERATIONS {
            self.turnover_ns = now_ns.saturating_sub(self.lists[queue].closed_ns);
        }
    }

    /// How many pages that follow each other in a queue, from this one on, are of its kind; 64 at
    /// most.
    pub(crate) fn alike(&self, record: u32) -> u32 {
        let kind = self.records.get(record).has(PAGER_BACKED);
        let mut next = record;
        let mut alike = 0;
        while next != 0
            && alike < PASSED_AT_ONCE
            && self.records.get(next).has(PAGER_BACKED) == kind
        {
            alike += 1;
            next = self.records.get(next).next().load(Relaxed);
        }
        alike
    }

    /// Whether a record's page may be reclaimed, its owner has not said that it needs it, and it has
    /// no chances left.
    pub(crate) fn is_inactive(&self, record: u32) -> bool {
        let page = self.records.get(record);
        let queue = page.queue();
        let spared = queue < GENERATIONS && page.chances() > 0;
        self.is_offered(queue) && !page.has(ALWAYS_NEED) && !spared
    }

    /// Whether a record's page is one that is reclaimed sooner or later (not among the failed, and
    /// so on), and its owner has not said that it needs it.
    pub(crate) fn is_ageing(&self, record: u32) -> bool {
        let page = self.records.get(record);
        let ages = page.queue() < GENERATIONS || OFFERED_FIRST.contains(&page.queue());
        ages && !page.has(ALWAYS_NEED)
    }
}
