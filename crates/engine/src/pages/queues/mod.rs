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

pub mod ageing;
mod choose;
pub mod counts;
pub mod random;
pub mod standing;

pub use ageing::{Ageing, Pace};
pub(crate) use choose::Wanted;

use crate::machine::lock::{Guard, HeldRanks, Lock, rank};
use crate::pages::page::{NO_QUEUE, PAGER_BACKED, PageRecord};
use coldpress_arena::{ChunkSource, Pool};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::Relaxed;
use lock_api::RawMutex;

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
    /// How many of them are still to be let back in.
    failed_due: u32,
    /// Pages put into the newest generation, ever.
    queued: u64,
    /// How long pages are in place before they go ([`patience`](crate::pages::patience)).
    turnover_ns: u64,
    /// Anonymous pages age and are reclaimed ([`Tunables`](crate::compression::tunables::Tunables)).
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
            failed_due: 0,
            queued: 0,
            turnover_ns: 0,
            reclaim_anonymous: true,
            reclaim_zero_forks: true,
        }
    }
}

/// The page queues and the records that stand in them. The queue lock guards the queues and the table of records;
/// what a record says of its page belongs to the lock of the page's VMO.
pub(crate) struct PageQueues<R> {
    /// The queue lock; a leaf of the order, held for a few stores.
    queues: Lock<R, Queues, { rank::LEAF }>,
    records: Pool<PageRecord>,
}

/// The page queues, while their lock is held.
pub(crate) struct LockedQueues<'a, R: RawMutex + HeldRanks> {
    queues: Guard<'a, R, Queues, { rank::LEAF }>,
    records: &'a Pool<PageRecord>,
}

impl<R: RawMutex + HeldRanks> Deref for LockedQueues<'_, R> {
    type Target = Queues;

    fn deref(&self) -> &Queues {
        &self.queues
    }
}

impl<R: RawMutex + HeldRanks> DerefMut for LockedQueues<'_, R> {
    fn deref_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }
}

impl<R: RawMutex + HeldRanks> PageQueues<R> {
    pub(crate) const fn new() -> Self {
        Self {
            queues: Lock::new(Queues::new()),
            records: Pool::new(),
        }
    }

    /// Takes the queue lock.
    pub(crate) fn lock(&self) -> LockedQueues<'_, R> {
        LockedQueues {
            queues: self.queues.lock(),
            records: &self.records,
        }
    }

    /// The record of a page that is in place.
    pub(crate) fn record(&self, record: u32) -> &PageRecord {
        self.records.get(record)
    }

    /// Records in use: pages that are in place and tracked.
    pub(crate) fn records_in_use(&self) -> u32 {
        self.records.in_use()
    }

    /// Bytes of records that have been touched.
    pub(crate) fn touched_bytes(&self) -> usize {
        self.records.touched_bytes()
    }

    /// Where the lock lies, for hosts that trace theirs by address.
    pub(crate) fn lock_address(&self) -> usize {
        self.queues.address()
    }

    /// Makes the lock free again.
    ///
    /// # Safety
    /// No other thread uses the queues, and none was inside at the moment of the fork.
    pub(crate) unsafe fn reset(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.queues.reset() };
    }
}

impl Queues {
    /// Records that must be free for [`can_track`](Self::can_track) to allow `more` pages.
    pub(crate) fn records_wanted(&self, more: u32) -> u32 {
        self.away + more
    }

    /// The content of a page that was away is gone for good.
    pub(crate) fn forget_away(&mut self) {
        self.away -= 1;
    }

    /// Age of the generation in slot `slot`: 0 is the newest.
    fn age_of(&self, slot: usize) -> usize {
        (self.newest + GENERATIONS - slot) % GENERATIONS
    }

    fn generations(&self) -> usize {
        self.age_of(self.oldest) + 1
    }
}

impl<R: RawMutex + HeldRanks> LockedQueues<'_, R> {
    /// The record of a page.
    pub(crate) fn record(&self, record: u32) -> &PageRecord {
        self.records.get(record)
    }

    /// Grows the table of records until so many can be taken. `false`: no memory.
    pub(crate) fn reserve(&self, source: &impl ChunkSource, records: u32) -> bool {
        self.records.reserve(source, records)
    }

    /// Gives a record back that stands in no queue.
    pub(crate) fn give(&mut self, record: u32) {
        self.records.give(record);
    }

    /// Whether a record may be taken for a page that was not tracked so far: one is left for
    /// every page that is away (so that a restore never finds none).
    pub(crate) fn can_track(&self) -> bool {
        self.records.available() > self.away
    }

    /// A record for a page that was not tracked, in no queue yet.
    pub(crate) fn begin(&mut self) -> Option<u32> {
        let record = self.records.take()?;
        self.records.get(record).begin();
        Some(record)
    }

    /// Gives the record of a page back whose content goes away.
    pub(crate) fn send_away(&mut self, record: u32) {
        self.records.give(record);
        self.away += 1;
    }

    /// A record for a page that was away.
    pub(crate) fn bring_back(&mut self) -> Option<u32> {
        self.away -= 1;
        self.begin()
    }

    /// Puts a record, which is in no queue, into `queue` as its youngest.
    fn push(&mut self, record: u32, queue: usize) {
        let records = self.records;
        let list = &mut self.lists[queue];
        let page = records.get(record);
        page.set_queue(queue);
        page.next().store(0, Relaxed);
        page.previous().store(list.youngest, Relaxed);
        match list.youngest {
            0 => list.oldest = record,
            youngest => records.get(youngest).next().store(record, Relaxed),
        }
        list.youngest = record;
        list.pages += 1;
    }

    /// Puts a record into the newest generation, if its page may be reclaimed at all.
    pub(crate) fn push_newest(&mut self, record: u32) {
        let reclaimed = self.reclaim_anonymous || self.records.get(record).has(PAGER_BACKED);
        let queue = if reclaimed {
            self.queued += 1;
            self.newest
        } else {
            NOT_RECLAIMED
        };
        self.push(record, queue);
    }

    /// Puts a record among the failed.
    pub(crate) fn push_failed(&mut self, record: u32) {
        self.push(record, FAILED);
    }

    /// Takes a record out of its queue.
    pub(crate) fn remove(&mut self, record: u32) {
        let records = self.records;
        let page = records.get(record);
        let list = &mut self.lists[page.queue()];
        let (next, previous) = (page.next().load(Relaxed), page.previous().load(Relaxed));
        match previous {
            0 => list.oldest = next,
            previous => records.get(previous).next().store(next, Relaxed),
        }
        match next {
            0 => list.youngest = previous,
            next => records.get(next).previous().store(previous, Relaxed),
        }
        list.pages -= 1;
        page.set_queue(NO_QUEUE);
    }

    /// The page was seen to be accessed: it is young again, where it ages at all. Whether it has
    /// changed its queue.
    pub(crate) fn touch(&mut self, record: u32) -> bool {
        let queue = self.records.get(record).queue();
        let ages = queue < GENERATIONS || matches!(queue, FAILED | DONT_NEED | ISOLATED | PICKED);
        if !ages || queue == self.newest {
            return false;
        }
        self.remove(record);
        self.push_newest(record);
        true
    }

    /// Walks every queue.
    ///
    /// # Panics
    /// If I1 is broken, or a count is wrong.
    pub(crate) fn check_invariants(&self) {
        for (queue, list) in self.lists.iter().enumerate() {
            let (mut record, mut previous, mut seen) = (list.oldest, 0, 0);
            while record != 0 {
                let page = self.records.get(record);
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
