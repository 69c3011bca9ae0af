//! Page queues: RFC-0219 "Aging and tracking".
//!
//! Resident pages stand in generations by the time they were last known to be touched. The
//! newest generation takes in new and restored pages; ageing opens a new one. When all
//! generations are in use the newest stays open until the oldest is empty.
//!
//! ```text
//!   oldest ──────────────▶ newest          failed
//!   [g2] [g3] [g4] [g5] [g6]               pages that could not be compressed or taken;
//!    └ inactive ┘   └ active: newest two   tried again once, long after
//! ```
//!
//! Invariants (under the queue lock):
//! * I1 Every record in use stands in exactly one queue, and names it.
//! * I2 Pages of an older generation were last known to be touched no later than pages of a
//!   younger one: `closed_ns` of a generation bounds the touches of its pages.
//!
//! Age is time, never a number of passes: generations open at most once per ageing interval,
//! so that a page is given that long to prove itself hot.

use crate::page::PageRecord;
use coldpress_arena::Pool;
use core::sync::atomic::Ordering::Relaxed;

/// Generations.
pub const GENERATIONS: usize = 8;

/// Youngest generations whose pages are never reclaimed.
pub const ACTIVE_GENERATIONS: usize = 2;

pub(crate) const FAILED: usize = GENERATIONS;
const QUEUES: usize = GENERATIONS + 1;

/// How pages age.
#[derive(Clone, Copy, Debug)]
pub struct Ageing {
    /// A new generation is opened this long after the last, in nanoseconds.
    pub interval_ns: u64,
    /// Under pressure, when no inactive page is left, this long after the last.
    pub pressed_interval_ns: u64,
    /// Failed pages are tried again after half this long to this long, in nanoseconds.
    pub retry_failed_ns: u64,
}

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
    lists: [List; QUEUES],
    oldest: usize,
    newest: usize,
    opened_ns: u64,
    /// Pages whose content is away and that will want a record when it comes back.
    away: u32,
    /// Failed pages at the last tick of their retry.
    failed_before: u32,
}

impl Queues {
    pub(crate) const fn new() -> Self {
        Self {
            lists: [List {
                oldest: 0,
                youngest: 0,
                pages: 0,
                closed_ns: 0,
            }; QUEUES],
            oldest: 0,
            newest: 0,
            opened_ns: 0,
            away: 0,
            failed_before: 0,
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
        pages.take()
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

    /// Puts a record into the newest generation.
    pub(crate) fn push_newest(&mut self, pages: &Pool<PageRecord>, record: u32) {
        self.push(pages, record, self.newest);
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
    }

    fn generations(&self) -> usize {
        (self.newest + GENERATIONS - self.oldest) % GENERATIONS + 1
    }

    /// Moves `oldest` to the oldest generation that has pages, leaving the active ones alone.
    fn skip_empty(&mut self) {
        while self.generations() > ACTIVE_GENERATIONS && self.lists[self.oldest].pages == 0 {
            self.oldest = (self.oldest + 1) % GENERATIONS;
        }
    }

    fn open_generation(&mut self, now_ns: u64) {
        self.skip_empty();
        if self.generations() < GENERATIONS {
            self.lists[self.newest].closed_ns = now_ns;
            self.newest = (self.newest + 1) % GENERATIONS;
            self.opened_ns = now_ns;
        }
    }

    /// Opens a new generation when its time has come, or early when pages must go and all are
    /// active; lets failed pages back in after their time.
    pub(crate) fn age(
        &mut self,
        pages: &Pool<PageRecord>,
        ageing: &Ageing,
        now_ns: u64,
        pressed: bool,
    ) {
        let since = now_ns.saturating_sub(self.opened_ns);
        let none_inactive = self.inactive_pages() == 0;
        if since >= ageing.interval_ns
            || (pressed && none_inactive && since >= ageing.pressed_interval_ns)
        {
            self.open_generation(now_ns);
        }
        let failed = &mut self.lists[FAILED];
        if now_ns.saturating_sub(failed.closed_ns) >= ageing.retry_failed_ns / 2 {
            failed.closed_ns = now_ns;
            // Only those that were listed at the last tick have waited their time.
            let mut record = failed.oldest;
            for _ in 0..failed.pages.min(self.failed_before) {
                let next = pages.get(record).next().load(Relaxed);
                self.remove(pages, record);
                self.push(pages, record, self.newest);
                record = next;
            }
            self.failed_before = self.lists[FAILED].pages;
        }
    }

    /// Pages that may be reclaimed.
    pub(crate) fn inactive_pages(&self) -> u32 {
        self.inactive().map(|g| self.lists[g].pages).sum()
    }

    /// Pages that could not be compressed or taken.
    pub(crate) fn failed_pages(&self) -> u32 {
        self.lists[FAILED].pages
    }

    fn inactive(&self) -> impl Iterator<Item = usize> + '_ {
        let inactive = self.generations().saturating_sub(ACTIVE_GENERATIONS);
        (0..inactive).map(|n| (self.oldest + n) % GENERATIONS)
    }

    /// The oldest page that may be reclaimed and was last known to be touched before
    /// `touched_before_ns`.
    pub(crate) fn oldest_inactive(&self, touched_before_ns: u64) -> Option<u32> {
        let generation = self.inactive().find(|&g| self.lists[g].pages > 0)?;
        let list = &self.lists[generation];
        (list.closed_ns <= touched_before_ns).then_some(list.oldest)
    }

    /// Whether a record is in an inactive generation.
    pub(crate) fn is_inactive(&self, pages: &Pool<PageRecord>, record: u32) -> bool {
        let queue = pages.get(record).queue();
        self.inactive().any(|g| g == queue)
    }

    /// Whether a record is in a generation at all (not among the failed).
    pub(crate) fn is_ageing(&self, pages: &Pool<PageRecord>, record: u32) -> bool {
        pages.get(record).queue() < GENERATIONS
    }
}
