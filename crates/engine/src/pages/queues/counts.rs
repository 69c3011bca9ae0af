//! How many pages stand where.

use super::number::*;
use super::{GENERATIONS, Queues};
use crate::{Engine, Host};
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_storage::CompressedStorage;

/// Pages in each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// By the age of the generation; the first is the newest.
    pub generations: [u32; GENERATIONS],
    /// Older than all generations.
    pub isolated: u32,
    /// Not needed, by their owners' word.
    pub dont_need: u32,
    /// Chosen by random debug compression.
    pub picked: u32,
    /// Could not be compressed or taken.
    pub failed: u32,
    /// Copies of the zero page, where such are not reclaimed.
    pub zero_fork: u32,
    /// Of latency-sensitive VMOs.
    pub high_priority: u32,
    /// Pinned.
    pub wired: u32,
    /// Pager-backed and not cleaned.
    pub dirty: u32,
    /// Anonymous, where such are not reclaimed.
    pub not_reclaimed: u32,
}

impl QueueCounts {
    /// All pages in queues.
    pub fn pages(&self) -> u32 {
        let aside = [
            self.isolated,
            self.dont_need,
            self.picked,
            self.failed,
            self.zero_fork,
            self.high_priority,
            self.wired,
            self.dirty,
            self.not_reclaimed,
        ];
        self.generations.iter().chain(&aside).sum()
    }
}

/// Pages that cannot be reclaimed for their age, and pages that can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActiveInactive {
    /// In the active generations.
    pub active: u32,
    /// Offered to reclaim.
    pub inactive: u32,
}

/// What can be reclaimed sooner or later, by age: the fields of `ZX_INFO_KMEM_STATS_EXTENDED` that
/// RFC-0219 redefines to mean pager-backed and anonymous memory alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimBytes {
    /// `vmo_pager_total_bytes`: all that ages.
    pub total_bytes: u64,
    /// `vmo_pager_newest_bytes`: accessed most recently; not eligible for reclaim now. The active
    /// generations.
    pub newest_bytes: u64,
    /// `vmo_pager_oldest_bytes`: accessed longest ago; would go first. The two oldest of the eight
    /// generations, and what is offered before them.
    pub oldest_bytes: u64,
}

impl Queues {
    fn counts(&self) -> QueueCounts {
        let mut generations = [0; GENERATIONS];
        for slot in 0..GENERATIONS {
            generations[self.age_of(slot)] = self.lists[slot].pages;
        }
        let pages = |queue: usize| self.lists[queue].pages;
        QueueCounts {
            generations,
            isolated: pages(ISOLATED),
            dont_need: pages(DONT_NEED),
            picked: pages(PICKED),
            failed: pages(FAILED),
            zero_fork: pages(ZERO_FORK),
            high_priority: pages(HIGH_PRIORITY),
            wired: pages(WIRED),
            dirty: pages(DIRTY),
            not_reclaimed: pages(NOT_RECLAIMED),
        }
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Pages in each queue.
    pub fn queue_counts(&self) -> QueueCounts {
        self.queues.lock().counts()
    }

    /// For how long the pages of each generation were not known to be touched, by its age: since it
    /// took the last of them in. 0 for the newest, and for those that are not open.
    pub fn generation_ages_ns(&self, host: &H) -> [u64; GENERATIONS] {
        let now_ns = host.now_ns();
        let queues = self.queues.lock();
        let mut ages = [0; GENERATIONS];
        for slot in 0..GENERATIONS {
            let age = queues.age_of(slot);
            if age > 0 && age < queues.generations() {
                ages[age] = now_ns.saturating_sub(queues.lists[slot].closed_ns);
            }
        }
        ages
    }

    /// Active and inactive pages.
    pub fn active_inactive(&self) -> ActiveInactive {
        let queues = self.queues.lock();
        ActiveInactive {
            active: queues.active_pages(),
            inactive: queues.inactive_pages(),
        }
    }

    /// What can be reclaimed, by age.
    pub fn reclaim_bytes(&self) -> ReclaimBytes {
        let queues = self.queues.lock();
        let bytes = |pages: u32| u64::from(pages) * PAGE_SIZE as u64;
        ReclaimBytes {
            total_bytes: bytes(queues.active_pages() + queues.inactive_pages()),
            newest_bytes: bytes(queues.active_pages()),
            oldest_bytes: bytes(queues.oldest_pages()),
        }
    }

    /// Walks all page queues: for tests.
    ///
    /// # Panics
    /// If they are not in order.
    pub fn check_queues(&self) {
        self.queues.lock().check_invariants();
    }
}
