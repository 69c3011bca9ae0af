//! When a new generation opens.
//!
//! | who asks | when it opens |
//! |---|---|
//! | [`Engine::age`] with an [`Ageing`] | an interval has passed; under pressure a shorter one, while nothing is inactive |
//! | [`Engine::age_as_tuned`] | the longest interval has passed, or the shortest has and there are too many active pages for the inactive |
//! | [`Engine::rotate`] | now |
//!
//! There are eight generations at most. [`Engine::age`] leaves the newest open until the oldest is
//! empty: a host without accessed bits learns of a touch only when a page comes back, and loses
//! nothing by it. The two others move what is left of the oldest to the *isolated* pages, a bounded
//! number under one hold of the queue lock.

use super::number::{FAILED, ISOLATED};
use super::{ACTIVE_GENERATIONS, GENERATIONS, LockedQueues, Queues};
use crate::figures::counters::add;
use crate::machine::lock::HeldRanks;
use crate::{Engine, Host};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::Ordering::Relaxed;
use lock_api::RawMutex;

/// Pages that are isolated, or let back in, under one hold of the queue lock.
const AT_ONCE: u32 = 256;

/// How pages age.
#[derive(Clone, Copy, Debug)]
pub struct Ageing {
    /// A new generation is opened this long after the last, in nanoseconds.
    pub interval_ns: u64,
    /// Under pressure, when no inactive page is left, this long after the last.
    pub pressed_interval_ns: u64,
    /// Failed pages are tried again after half this long to this long, in nanoseconds; only once
    /// they are accessed with `u64::MAX`, which no clock reaches.
    pub retry_failed_ns: u64,
}

/// How soon [`Engine::age`] may open a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// When its time has come.
    Steady,
    /// Pages must go: earlier, while nothing is inactive.
    Pressed,
}

/// Why a generation was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgedBy {
    /// Its time had come.
    Time,
    /// Too many pages were active.
    ActiveRatio,
    /// Somebody asked for it.
    Hand,
}

/// When [`Engine::age_as_tuned`] opens a generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    pub(crate) shortest_ns: u64,
    pub(crate) longest_ns: u64,
    /// So many times the active pages may not be more than the inactive ones; 0: no such rule.
    pub(crate) active_ratio: u64,
    pub(crate) retry_failed_ns: u64,
}

impl Queues {
    /// Moves `oldest` to the oldest generation that has pages, leaving the active ones alone.
    pub(super) fn skip_empty(&mut self) {
        while self.generations() > ACTIVE_GENERATIONS && self.lists[self.oldest].pages == 0 {
            self.oldest = (self.oldest + 1) % GENERATIONS;
        }
    }

    /// Opens a generation, if one is unused. Whether it was.
    fn open_generation(&mut self, now_ns: u64) -> bool {
        self.skip_empty();
        let unused = self.generations() < GENERATIONS;
        if unused {
            self.lists[self.newest].closed_ns = now_ns;
            self.newest = (self.newest + 1) % GENERATIONS;
            self.opened_ns = now_ns;
        }
        unused
    }

    /// Whether it is time for a generation by `rhythm`, and why.
    fn due(&self, rhythm: &Rhythm, now_ns: u64) -> Option<AgedBy> {
        let since = now_ns.saturating_sub(self.opened_ns);
        let (active, inactive) = (self.active_pages(), self.inactive_pages());
        let crowded = u64::from(active) * rhythm.active_ratio > u64::from(inactive);
        if since >= rhythm.longest_ns {
            Some(AgedBy::Time)
        } else if crowded && since >= rhythm.shortest_ns {
            Some(AgedBy::ActiveRatio)
        } else {
            None
        }
    }
}

impl<R: RawMutex + HeldRanks> LockedQueues<'_, R> {
    /// Opens a new generation when its time has come, or early when pages must go and all are
    /// active.
    pub(crate) fn age(&mut self, ageing: &Ageing, now_ns: u64, pace: Pace) {
        let since = now_ns.saturating_sub(self.opened_ns);
        let none_inactive = self.inactive_pages() == 0;
        if since >= ageing.interval_ns
            || (pace == Pace::Pressed && none_inactive && since >= ageing.pressed_interval_ns)
        {
            self.open_generation(now_ns);
        }
    }

    /// Lets failed pages back in after their time. `true`: some of them are left.
    fn retry_failed(&mut self, after_ns: u64, now_ns: u64) -> bool {
        let failed = self.lists[FAILED];
        if self.failed_due == 0 {
            if now_ns.saturating_sub(failed.closed_ns) < after_ns / 2 {
                return false;
            }
            self.lists[FAILED].closed_ns = now_ns;
            // Only those that were listed at the last tick have waited their time.
            self.failed_due = self.failed_before;
        }
        self.failed_due = self.failed_due.min(failed.pages);
        let now = self.failed_due.min(AT_ONCE);
        let mut record = failed.oldest;
        for _ in 0..now {
            let next = self.records.get(record).next().load(Relaxed);
            self.remove(record);
            self.push_newest(record);
            record = next;
        }
        self.failed_due -= now;
        if self.failed_due == 0 {
            self.failed_before = self.lists[FAILED].pages;
        }
        self.failed_due > 0
    }

    /// Opens a generation, isolating what is in its way. `false`: some of that is left.
    fn rotate(&mut self, now_ns: u64) -> bool {
        if self.open_generation(now_ns) {
            return true;
        }
        for _ in 0..AT_ONCE {
            match self.lists[self.oldest].oldest {
                0 => break,
                record => {
                    self.remove(record);
                    self.push(record, ISOLATED);
                }
            }
        }
        // Its oldest bound is the latest of all that were isolated (I2).
        self.lists[ISOLATED].closed_ns = self.lists[self.oldest].closed_ns;
        self.open_generation(now_ns)
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Opens a new generation, whatever the time.
    pub fn rotate(&self, host: &H) {
        while !self.queues.lock().rotate(host.now_ns()) {}
        self.count_aged(AgedBy::Hand);
    }

    /// Opens a new generation if the engine's tunables say that it is time, and says why it did.
    /// Failed pages come back after the time that the tunables give, if they give one.
    pub fn age_as_tuned(&self, host: &H) -> Option<AgedBy> {
        let rhythm = self.rhythm();
        self.retry_failed(host, rhythm.retry_failed_ns);
        let aged = self.queues.lock().due(&rhythm, host.now_ns())?;
        while !self.queues.lock().rotate(host.now_ns()) {}
        self.count_aged(aged);
        Some(aged)
    }

    /// Lets failed pages back in after their time.
    pub(crate) fn retry_failed(&self, host: &H, after_ns: u64) {
        let now_ns = host.now_ns();
        while self.queues.lock().retry_failed(after_ns, now_ns) {}
    }

    fn count_aged(&self, by: AgedBy) {
        let c = &self.counters;
        let counter = match by {
            AgedBy::Time => &c.aged_by_time,
            AgedBy::ActiveRatio => &c.aged_by_active_ratio,
            AgedBy::Hand => &c.aged_by_hand,
        };
        add(counter, 1);
    }

    fn rhythm(&self) -> Rhythm {
        const MILLISECOND: u64 = 1_000_000;
        let t = &self.tunables;
        Rhythm {
            shortest_ns: t.min_aging_interval_ms() * MILLISECOND,
            longest_ns: t.max_aging_interval_ms() * MILLISECOND,
            active_ratio: t.active_ratio_multiplier(),
            retry_failed_ns: match t.retry_failed_ms() {
                0 => u64::MAX,
                ms => ms * MILLISECOND,
            },
        }
    }
}
