//! Page queues: RFC-0219 "Aging and tracking".
//!
//! Resident pages stand in generations by the time they were last known to be touched. The
//! newest generation takes in new and restored pages; ageing opens a new one. Pager-backed pages
//! and anonymous ones stand in the same queues and are treated alike; a mark in the record tells
//! them apart.
//!
//! ```text
//!  offered first                                                            last
//!  picked   dont-need   isolated   [g2] [g3] [g4] [g5] [g6]
//!  (debug)  (a hint)    (rotated    └ inactive ┘   └ active: newest two, never chosen
//!                        out)         oldest ─────────▶ newest
//!
//!  never offered: failed · zero forks · high priority · wired · dirty · not reclaimed
//! ```
//!
//! | queue | how a page comes there | how it leaves |
//! |---|---|---|
//! | generations | tracked, restored, accessed | reclaimed |
//! | isolated | rotation, when all generations are in use | reclaimed, accessed |
//! | dont-need | its owner's hint | reclaimed, accessed |
//! | picked | random debug compression ([`random`]) | reclaimed, accessed |
//! | failed | it could not be compressed or taken | accessed; after a time where the host sees no accesses ([`Ageing::retry_failed_ns`]) |
//! | zero forks | a copy of the zero page, where such are not reclaimed | moved by its owner |
//! | high priority, wired | latency-sensitive, pinned | moved by its owner |
//! | dirty | written, and its pager does not know | cleaned: moved by its owner |
//! | not reclaimed | anonymous, where such are not reclaimed | the tunable is set again |
//!
//! Invariants (under the queue lock):
//! * I1 Every record in use stands in exactly one queue, and names it; but for those whose pages
//!   are being taken out, which stand in none.
//! * I2 Pages of an older generation were last known to be touched no later than pages of a
//!   younger one: `closed_ns` of a generation bounds the touches of its pages.
//! * I3 A queue hands out first what came first.
//!
//! Age is time, never a number of passes: generations open at most once per ageing interval,
//! so that a page is given that long to prove itself hot ([`ageing`]).

pub mod access;
pub mod ageing;
mod choose;
pub mod counts;
pub mod random;
pub mod standing;

pub use ageing::Ageing;
pub(crate) use choose::Wanted;

use crate::page::{NO_QUEUE, PAGER_BACKED, PageRecord};
use coldpress_arena::Pool;
use core::sync::atomic::Ordering::Relaxed;

/// Generations.
pub const GENERATIONS: usize = 8;

/// Youngest generations whose pages are never chosen. (Under pressure a run may take a few along that lie between
/// colder ones.)
pub const ACTIVE_GENERATIONS: usize = 2;

/// Oldest generations, of as many as there can be, that mild reclaim takes.
pub const OLDEST_GENERATIONS: usize = 2;

/// Numbers of the queues that are no generations.
pub(crate) mod number {
    pub(crate) const FAILED: usize = super::GENERATIONS;
    pub(crate) const DONT_NEED: usize = FAILED + 1;
    pub(crate) const ISOLATED: usize = FAILED + 2;
    pub(crate) const PICKED: usize = FAILED + 3;
    pub(crate) const ZERO_FORK: usize = FAILED + 4;
    pub(crate) const HIGH_PRIORITY: usize = FAILED + 5;
    pub(crate) const WIRED: usize = FAILED + 6;
    pub(crate) const DIRTY: usize = FAILED + 7;
    pub(crate) const NOT_RECLAIMED: usize = FAILED + 8;
    pub(crate) const COUNT: usize = FAILED + 9;
}
use number::*;

#[derive(Clone, Copy, Default)]
struct List {
    oldest: u32,
    youngest: u32,
    pages: u32,
    /// When the generation stopped taking pages in; for the failed list: last retried.
    closed_ns: u64,
}

/// All queues. Lives behind the engine's queue lock.
pub(crate) struct Queues {
    lists: [List; COUNT],
    oldest: usize,
    newest: usize,
    opened_ns: u64,
    /// Pages whose content is away and that will want a record when it comes back.
    away: u32,
    /// Failed pages at the last tick of their retry.
    failed_before: u32,
    /// Pages put into the newest generation, ever.
    queued: u64,
    /// How long pages are in place before they go ([`patience`](crate::patience)).
    turnover_ns: u64,
    /// Anonymous pages age and are reclaimed ([`Tunables`](crate::tunables::Tunables)).
    reclaim_anonymous: bool,
    /// So do copies of the zero page.
    reclaim_zero_forks: bool,
}

impl Queues {
    pub(crate) const fn new() -> Self {
        Self {
            lists: [List {
                oldest: 0,
                youngest: 0,
                pages: 0,
                closed_ns: 0,
            }; COUNT],
            oldest: 0,
            newest: 0,
            opened_ns: 0,
            away: 0,
            failed_before: 0,
            queued: 0,
            turnover_ns: 0,
            reclaim_anonymous: true,
            reclaim_zero_forks: true,
        }
    }

    /// Whether a record may be taken for a page that was not tracked so far: one is left for
    /// every page that is away (so that a restore never finds none).
    pub(crate) fn can_track(&self, pages: &Pool<PageRecord>) -> bool {
        pages.available() > self.away
    }

    /// Records that must be free for [`can_track`](Self::can_track) to allow `more` pages.
    pub(crate) fn records_wanted(&self, more: u32) -> u32 {
        self.away + more
    }

    /// A record for a page that was not tracked, in no queue yet.
    pub(crate) fn begin(&mut self, pages: &Pool<PageRecord>) -> Option<u32> {
        let record = pages.take()?;
        pages.get(record).begin();
        Some(record)
    }

    /// Gives the record of a page back whose content goes away.
    pub(crate) fn send_away(&mut self, pages: &Pool<PageRecord>, record: u32) {
        pages.give(record);
        self.away += 1;
    }

    /// The content of a page that was away is gone for good.
    pub(crate) fn forget_away(&mut self) {
        self.away -= 1;
    }

    /// A record for a page that was away.
    pub(crate) fn bring_back(&mut self, pages: &Pool<PageRecord>) -> Option<u32> {
        self.away -= 1;
        self.begin(pages)
    }

    /// Puts a record, which is in no queue, into `queue` as its youngest.
    fn push(&mut self, pages: &Pool<PageRecord>, record: u32, queue: usize) {
        let list = &mut self.lists[queue];
        let page = pages.get(record);
        page.set_queue(queue);
        page.next().store(0, Relaxed);
        page.previous().store(list.youngest, Relaxed);
        match list.youngest {
            0 => list.oldest = record,
            youngest => pages.get(youngest).next().store(record, Relaxed),
        }
        list.youngest = record;
        list.pages += 1;
    }

    /// Puts a record into the newest generation, if its page may be reclaimed at all.
    pub(crate) fn push_newest(&mut self, pages: &Pool<PageRecord>, record: u32) {
        let reclaimed = self.reclaim_anonymous || pages.get(record).has(PAGER_BACKED);
        let queue = if reclaimed {
            self.queued += 1;
            self.newest
        } else {
            NOT_RECLAIMED
        };
        self.push(pages, record, queue);
    }

    /// Puts a record among the failed.
    pub(crate) fn push_failed(&mut self, pages: &Pool<PageRecord>, record: u32) {
        self.push(pages, record, FAILED);
    }

    /// Takes a record out of its queue.
    pub(crate) fn remove(&mut self, pages: &Pool<PageRecord>, record: u32) {
        let page = pages.get(record);
        let list = &mut self.lists[page.queue()];
        let (next, previous) = (page.next().load(Relaxed), page.previous().load(Relaxed));
        match previous {
            0 => list.oldest = next,
            previous => pages.get(previous).next().store(next, Relaxed),
        }
        match next {
            0 => list.youngest = previous,
            next => pages.get(next).previous().store(previous, Relaxed),
        }
        list.pages -= 1;
        page.set_queue(NO_QUEUE);
    }

    /// Age of the generation in slot `slot`: 0 is the newest.
    fn age_of(&self, slot: usize) -> usize {
        (self.newest + GENERATIONS - slot) % GENERATIONS
    }

    fn generations(&self) -> usize {
        self.age_of(self.oldest) + 1
    }

    /// The page was seen to be accessed: it is young again, where it ages at all. Whether it has
    /// changed its queue.
    pub(crate) fn touch(&mut self, pages: &Pool<PageRecord>, record: u32) -> bool {
        let queue = pages.get(record).queue();
        let ages = queue < GENERATIONS || matches!(queue, FAILED | DONT_NEED | ISOLATED | PICKED);
        if !ages || queue == self.newest {
            return false;
        }
        self.remove(pages, record);
        self.push_newest(pages, record);
        true
    }

    /// Walks every queue.
    ///
    /// # Panics
    /// If I1 is broken, or a count is wrong.
    pub(crate) fn check_invariants(&self, pages: &Pool<PageRecord>) {
        for (queue, list) in self.lists.iter().enumerate() {
            let (mut record, mut previous, mut seen) = (list.oldest, 0, 0);
            while record != 0 {
                let page = pages.get(record);
                assert_eq!(page.queue(), queue, "I1: record {record}");
                assert_eq!(page.previous().load(Relaxed), previous);
                seen += 1;
                assert!(seen <= list.pages, "a ring in queue {queue}");
                (previous, record) = (record, page.next().load(Relaxed));
            }
            assert_eq!(
                (seen, previous),
                (list.pages, list.youngest),
                "queue {queue}"
            );
            let used = queue >= GENERATIONS || self.age_of(queue) < self.generations();
            assert!(used || list.pages == 0, "pages in a generation not in use");
        }
        let mut older = 0;
        for age in (1..self.generations()).rev() {
            let closed = self.lists[(self.newest + GENERATIONS - age) % GENERATIONS].closed_ns;
            assert!(older <= closed, "I2: generation of age {age}");
            older = closed;
        }
    }
}
