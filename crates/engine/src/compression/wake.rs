//! The set that a program used when it was awake last, restored in handfuls when it wakes.
//!
//! A program that slept for long enough is evicted whole, and wakes to one fault after another. Nobody sees accesses,
//! but what was in use when it was awake *before* is known all the same: that came back then, and was stored anew
//! since; what nobody wanted was stored earlier. Each stored page says when (`stored.rs`).
//!
//! ```text
//!   awake            asleep          awake           asleep           wakes
//!   ▌▌▌▌▌▌▌▌                         ▌▌▌▌▌▌▌                          ▌▌▌▌
//!                 stored: all        ▲            stored: what        32 faults: 24 of them stored since ▲?
//!                                    │            was used here       then with each further fault the pages around
//!                                    start                            that were stored since ▲, and before now
//! ```
//!
//! A *burst* is a time with many refaults, after one with next to none. The starts of the last few are remembered. When
//! the next burst begins, its first faults are the test: the latest start is taken since which three quarters of them
//! were stored, and what was stored since is the *set*; without such a start there is none. So what is restored is
//! foretold by what is touched, before it costs anything. From then on, and as long as the burst lasts, the pages of
//! the set that lie around a touched page are restored with it, together (`restore/run.rs`).
//!
//! What was stored since the burst began is not in the set. It has been restored once already, and memory had no room
//! for it: a program that touches more than its budget at random would get all of it, again and again.
//!
//! One page of 16, another one each time, is left where it is. If it is used, a fault brings it; if it is not, it is no
//! longer in the set. So what is restored in vain comes to an end by itself.
//!
//! What is known of bursts are words by themselves, read and written without a lock: two workers that meet there
//! miscount. Nothing but speed rests on it.

use crate::Engine;
use crate::compression::restore::RUN_PAGES;
use crate::compression::stored::{is_since, stored_at, time};
use crate::compression::worker::Worker;
use crate::figures::counters::add;
use crate::machine::host::Host;
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Refaults that make a burst.
const BURST: u32 = 32;
/// One of them is forgotten in so many milliseconds.
const FORGOTTEN_MS: u64 = 2;
/// Starts that are remembered.
const STARTS: usize = 4;
/// One page of so many is left away.
const LEFT_AWAY: u64 = 16;

/// What is known of bursts.
pub(crate) struct Bursts {
    last_ms: AtomicU64,
    /// Refaults that are not forgotten, [`BURST`] at most.
    level: AtomicU32,
    /// A burst is under way.
    is_burst: AtomicBool,
    /// When the first of them was, in the unit of headers, and how many there were.
    first: AtomicU32,
    faults: AtomicU32,
    /// Of these, how many were stored since each start.
    since: [AtomicU32; STARTS],
    /// The latest first; 0: none.
    starts: [AtomicU32; STARTS],
    /// The start of the set that is used now; 0: none is.
    set: AtomicU32,
}

impl Bursts {
    pub(crate) const fn new() -> Self {
        Self {
            last_ms: AtomicU64::new(0),
            level: AtomicU32::new(0),
            is_burst: AtomicBool::new(false),
            first: AtomicU32::new(0),
            faults: AtomicU32::new(0),
            since: [const { AtomicU32::new(0) }; STARTS],
            starts: [const { AtomicU32::new(0) }; STARTS],
            set: AtomicU32::new(0),
        }
    }

    /// A page was touched that was stored at this time.
    pub(crate) fn touched(&self, stored: u32, now_ns: u64) {
        let now_ms = now_ns / 1_000_000;
        if self.is_burst.load(Relaxed) && self.last_ms.load(Relaxed) == now_ms {
            // It goes on: handlers share these words, and need not write them at each fault.
            return;
        }
        let forgotten = now_ms.saturating_sub(self.last_ms.swap(now_ms, Relaxed)) / FORGOTTEN_MS;
        let level = u64::from(self.level.load(Relaxed)).saturating_sub(forgotten) as u32;
        self.level.store((level + 1).min(BURST), Relaxed);
        if level == 0 {
            self.is_burst.store(false, Relaxed);
            self.set.store(0, Relaxed);
            self.first.store(time(now_ns).max(1), Relaxed);
            self.faults.store(0, Relaxed);
            for since in &self.since {
                since.store(0, Relaxed);
            }
        }
        if self.is_burst.load(Relaxed) {
            return;
        }
        self.faults.fetch_add(1, Relaxed);
        for (since, start) in self.since.iter().zip(&self.starts) {
            let start = start.load(Relaxed);
            if start != 0 && is_since(stored, start) {
                since.fetch_add(1, Relaxed);
            }
        }
        if level + 1 >= BURST {
            self.begin();
        }
    }

    /// A burst has begun: chooses the set that its first faults foretell.
    fn begin(&self) {
        self.is_burst.store(true, Relaxed);
        let enough = self.faults.load(Relaxed) * 3 / 4;
        let foretold = |n: &usize| {
            self.starts[*n].load(Relaxed) != 0 && self.since[*n].load(Relaxed) >= enough
        };
        if let Some(n) = (0..STARTS).find(foretold) {
            self.set.store(self.starts[n].load(Relaxed), Relaxed);
        }
        for n in (1..STARTS).rev() {
            self.starts[n].store(self.starts[n - 1].load(Relaxed), Relaxed);
        }
        self.starts[0].store(self.first.load(Relaxed), Relaxed);
    }

    /// Whether a page is left away this time.
    fn is_left_away(&self, (segment, index): Place) -> bool {
        let page = u64::from(segment) << 32 | u64::from(index);
        let random = (page ^ u64::from(self.starts[0].load(Relaxed)) << 16)
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (random >> 40).is_multiple_of(LEFT_AWAY)
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// A page is touched: restores what belongs to the set around it, if the program wakes and the host has room for so
    /// many pages (`goes_on`). How many.
    pub fn restore_set_around(
        &self,
        host: &H,
        worker: &mut Worker<C>,
        (segment, index): Place,
        mut goes_on: impl FnMut(u32) -> bool,
    ) -> u32 {
        let start = self.bursts.set.load(Relaxed);
        if start == 0 || !worker.restores_runs() || self.tunables.read_ahead_pages() == 0 {
            return 0;
        }
        let at = index % RUN_PAGES as u32;
        let first = (segment, index - at);
        let wanted = self.set_from(host, first, start) & !(1 << at);
        if wanted == 0 || !goes_on(wanted.count_ones()) {
            return 0;
        }
        let restored = self.restore_run(host, worker, first, wanted);
        add(&self.counters.read_ahead, restored.into());
        restored
    }

    /// Of the pages from `first` on that can be restored together, those that were stored since a start and before this
    /// burst, but for what is left away.
    fn set_from(&self, host: &H, (segment, first): Place, start: u32) -> u32 {
        let Some(list) = self.page_list_if_there(segment) else {
            return 0;
        };
        let burst = self.bursts.starts[0].load(Relaxed);
        let is_wanted = |&n: &u32| {
            let Entry::Compressed(reference) = list.get(first + n) else {
                return false;
            };
            // SAFETY: the entry names it, and the list is locked.
            let stored = unsafe { stored_at(host.frames(), reference) };
            stored.is_some_and(|stored| is_since(stored, start) && !is_since(stored, burst))
                && !self.bursts.is_left_away((segment, first + n))
        };
        let wanted = (0..RUN_PAGES as u32).filter(is_wanted);
        wanted.fold(0, |set, n| set | 1 << n)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    const MS: u64 = 1_000_000;

    /// Refaults, one every 20 µs from `at_ms` on, of pages that were stored at these times.
    fn burst(bursts: &Bursts, at_ms: u64, stored: impl Iterator<Item = u64>) {
        for (n, stored_ms) in (0..).zip(stored) {
            bursts.touched(time(stored_ms * MS), at_ms * MS + n * 20_000);
        }
    }

    fn set(bursts: &Bursts) -> Option<u64> {
        let start = bursts.set.swap(0, Relaxed);
        (start != 0).then_some(u64::from(start) * 8)
    }

    #[test]
    fn a_burst_is_foretold_by_the_one_before() {
        let bursts = Bursts::new();
        burst(&bursts, 80_000, std::iter::repeat_n(40_000, 1_000));
        assert_eq!(set(&bursts), None, "nothing is known yet");
        burst(&bursts, 160_000, std::iter::repeat_n(120_000, 1_000));
        assert_eq!(set(&bursts), Some(80_000));
        burst(&bursts, 240_000, std::iter::repeat_n(120_000, 1_000));
        assert_eq!(
            set(&bursts),
            Some(80_000),
            "what was used then is used again"
        );
        burst(&bursts, 320_000, std::iter::repeat_n(40_000, 1_000));
        assert_eq!(set(&bursts), None, "nobody has wanted it since");
    }

    #[test]
    fn few_faults_are_no_burst_and_many_all_the_time_are_one() {
        let bursts = Bursts::new();
        for n in 0..1_000 {
            bursts.touched(time(8 * MS), (1_000 + n * 3) * MS);
        }
        assert_eq!(bursts.starts[0].load(Relaxed), 0);
        for n in 0..100_000 {
            bursts.touched(time(8 * MS), 10_000 * MS + n * MS);
        }
        let starts = bursts.starts.iter().map(|start| start.load(Relaxed));
        assert_eq!(starts.filter(|&start| start != 0).count(), 1);
    }

    #[test]
    fn a_page_is_left_away_now_and_then() {
        let bursts = Bursts::new();
        let mut times = 0;
        for start in 1..1_000 {
            bursts.starts[0].store(start, Relaxed);
            times += u32::from(bursts.is_left_away((3, 77)));
        }
        assert!((30..130).contains(&times), "{times}");
    }
}
