//! What is written back: the coldest of what is stored, where that takes too much of the budget.
//!
//! While a program is above its budget, and stored pages take more than half of it, pages leave storage for the file of
//! `--writeback` until they take three eighths. So a working set has its room however much content there is. (Pages
//! that do not compress leave without having been stored: `coldpress_engine::compression::write_back`.)
//!
//! Which are the coldest is not kept in order anywhere. The search goes round the page lists, and takes what has been
//! stored for longer than an age. A round that finds too little halves the age; time that goes by doubles it.

use crate::machine::os::Os;
use crate::reclaim::recode::Recode;
use crate::{Codec, Pager};
use coldpress_engine::{Access, LEAF_PAGES, SEGMENT_PAGES, Search, Worker, WrittenBack};
use coldpress_uffd::PAGE_SIZE;
use core::sync::atomic::Ordering::Relaxed;

/// Storage of more than this part of the budget is too much ...
const MOST_PART: u64 = 2;
/// ... until it is less than so many eighths.
const ENOUGH_EIGHTHS: u64 = 3;
/// A turn goes on for so long: what is compressed must go on, too.
const TURN_NS: u64 = 10_000_000;
/// Entries looked at between two looks at the clock.
const ENTRIES: u32 = 256;
/// Payloads of fewer bytes stay: a stub and a row of the tables take 56.
const LEAST_BYTES: usize = 256;
/// The age begins with this, is never more, and never less.
const FIRST_AGE_MS: u32 = 8192;
const MOST_AGE_MS: u32 = 1 << 16;
const LEAST_AGE_MS: u32 = 32;
/// A round that finds fewer than one in so many of what is stored makes the age shorter.
const FEW_PART: u64 = 8;
/// After so much time without a turn the age is longer again.
const LONGER_NS: u64 = 2_000_000_000;
/// How often what is written back is looked for before a fork.
const ATTEMPTS: u32 = 100;

/// The search for what goes.
pub(crate) struct WriteBack {
    /// Where it goes on.
    at: (u32, u32),
    age_ms: u32,
    /// Pages of this round.
    of_round: u64,
    /// When the last turn ended.
    last_ns: u64,
}

impl WriteBack {
    pub(crate) fn new() -> Self {
        Self {
            at: (1, 0),
            age_ms: FIRST_AGE_MS,
            of_round: 0,
            last_ns: 0,
        }
    }

    /// Writes back some of what is stored, if it is too much of the budget. How many pages.
    pub(crate) fn turn<O: Os>(
        &mut self,
        pager: &Pager<O>,
        recode: &mut Recode<O>,
        budget: u64,
    ) -> u32 {
        if !pager.tier.writes() {
            return 0;
        }
        // SAFETY: this is the reclaim thread.
        unsafe { pager.tier.tidy(pager.host.pagemap.get()) };
        let stored = u64::from(pager.host.memory.used_frames()) * PAGE_SIZE as u64;
        if stored <= budget / MOST_PART || !pager.tier.may_write() {
            return 0;
        }
        let began_ns = O::now_ns();
        if began_ns.saturating_sub(self.last_ns) > LONGER_NS {
            self.age_ms = (self.age_ms * 2).min(MOST_AGE_MS);
        }
        let excess = stored - budget / 8 * ENOUGH_EIGHTHS;
        let recoder = recode.recoder();
        let others = recoder.position();
        recoder.go_to(self.at);
        let (mut pages, mut saved) = (0, 0);
        while saved < excess && O::now_ns() - began_ns < TURN_NS && !pager.bell_rung() {
            let age = self.age_ms..u32::MAX;
            match pager.engine.find_stored(pager, recoder, age, ENTRIES) {
                Search::Found => match pager.engine.write_back(pager, recoder, LEAST_BYTES) {
                    WrittenBack::Done(bytes) => {
                        saved += bytes as u64;
                        pages += 1;
                        self.of_round += 1;
                    }
                    WrittenBack::Overtaken | WrittenBack::TooSmall => {}
                    WrittenBack::Refused | WrittenBack::NoStorage => break,
                },
                Search::Unfinished => {}
                Search::PassEnded => {
                    recoder.begin();
                    if !self.round_ended(pager) {
                        break;
                    }
                }
            }
        }
        self.at = recoder.position();
        recoder.go_to(others);
        self.last_ns = O::now_ns();
        pages
    }

    /// Chooses the age for the next round. Whether it may find more.
    fn round_ended<O: Os>(&mut self, pager: &Pager<O>) -> bool {
        let c = pager.engine.counters();
        let stored = c.compressed_pages.load(Relaxed);
        let left = stored.saturating_sub(c.written_back_pages.load(Relaxed));
        let found = core::mem::take(&mut self.of_round);
        let may_be_shorter = self.age_ms > LEAST_AGE_MS;
        if found < left / FEW_PART && may_be_shorter {
            self.age_ms /= 2;
        }
        found > 0 || may_be_shorter
    }
}

impl<O: Os> Pager<O> {
    /// Brings back all that is written back. By the reclaim thread, before it rests for a fork whose child could not
    /// read it.
    pub(crate) fn bring_back_what_is_written_back(&self, worker: &mut Worker<Codec>) {
        // Memory goes above the budget, and nobody makes room meanwhile.
        self.pressure.hopeless.store(true, Relaxed);
        for attempt in 0..ATTEMPTS {
            let mut left = 0;
            for (segment, _) in self.host.windows.iter() {
                for leaf in (0..SEGMENT_PAGES).step_by(LEAF_PAGES as usize) {
                    if !self.engine.has_leaf(segment, leaf) {
                        continue;
                    }
                    for index in leaf..leaf + LEAF_PAGES {
                        if self.engine.is_written_back(segment, index) {
                            self.engine
                                .fault(self, worker, segment, index, Access::Read);
                            left += u32::from(self.engine.is_written_back(segment, index));
                        }
                    }
                }
            }
            let is_under_way = self.engine.counters().written_back_pages.load(Relaxed) > 0;
            if left == 0 && !is_under_way {
                self.tier.end();
                return;
            }
            O::sleep_ns(100_000 << attempt.min(6));
        }
    }
}
