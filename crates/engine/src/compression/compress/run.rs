//! A run: neighbouring cold pages that leave together, as one call to the host.
//!
//! The page that the queues name goes, and with it the cold pages around it in its leaf. Pages between
//! them that are away already are passed over; a few active ones are taken along where a second call
//! would cost more than restoring them.

use super::Leaving;
use crate::compression::drivers::{self, Run};
use crate::figures::cause::Trigger;
use crate::figures::counters::add;
use crate::machine::host::{Host, StagingSlot, Taken};
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::pages::page_list::PageList;
use crate::{Engine, LEAF_PAGES, PageIndex, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// Active pages between cold ones that are taken along rather than splitting a run: a second
/// call to the kernel costs as much as restoring four pages (17 µs against 4 µs each).
const BRIDGED_PAGES: u32 = 4;

/// A run that was taken.
pub(super) struct TakenRun {
    pub(super) taken: u32,
    pub(super) refused: u32,
    /// Slots that it spans.
    pub(super) span: u16,
}

/// Why there is no run.
enum NoRun {
    /// The page is no longer what the queue said.
    Gone,
    /// Another reclaimer is taking pages around it.
    Busy,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Takes the run of cold pages around a page into the slots from `slot`, and says by slot what
    /// is to be remembered of them; `bridged` active ones in a row at most are taken along. `None`:
    /// the page is no longer what the queue said, or another reclaimer is at it.
    pub(super) fn take_run(
        &self,
        host: &H,
        record: u32,
        (segment, index): Place,
        slot: StagingSlot,
        leaving: &mut [Option<Leaving>],
        bridged: u32,
    ) -> Option<TakenRun> {
        let stable = self.stable(host);
        let list = self.page_list_if_there(segment)?;
        let run = match self.choose_run(&list, record, segment, index, bridged) {
            Ok(run) => run,
            Err(NoRun::Gone) => return None,
            Err(NoRun::Busy) => {
                drop(list);
                drop(stable);
                self.let_changes_in(host);
                return None;
            }
        };
        if H::MAX_RUN == 1 && host.harvest_accessed(segment, run.first, run.wanted) != 0 {
            // It was accessed since the bits were harvested last: it stays.
            let mut queues = self.queues.lock();
            queues.push_newest(run.records[0]);
            add(&self.counters.accessed, 1);
            return None;
        }
        let (taken, list) = drivers::take(self, host, list, segment, &run, slot);
        Some(self.start(&list, segment, &run, slot, taken, leaving))
    }

    /// Start: what was moved is a temporary reference from now on. Whatever the host left in place
    /// is young again, or among the failed. Under the VMO's lock.
    fn start(
        &self,
        list: &PageList<'_, H>,
        segment: SegmentId,
        run: &Run,
        slot: StagingSlot,
        taken: Taken,
        leaving: &mut [Option<Leaving>],
    ) -> TakenRun {
        let mut queues = self.queues.lock();
        for (n, (&record, leaving)) in run.records.iter().zip(leaving).enumerate() {
            let bit = 1u64 << n;
            if run.wanted & bit == 0 {
                continue;
            }
            let index = run.first + n as u32;
            if taken.moved & bit != 0 {
                let at = slot.0 as usize + n;
                self.backlinks[at].set((segment, index));
                list.set(index, Entry::Temporary(StagingSlot(at as u16)));
                *leaving = Some(Leaving::of(self.queues.record(record)));
                queues.send_away(record);
            } else if taken.holes & bit != 0 {
                list.set(index, Entry::Empty);
                queues.give(record);
            } else if taken.refused & bit != 0 {
                queues.push_failed(record);
            } else {
                queues.push_newest(record);
            }
        }
        drop(queues);
        self.count_run(run, taken)
    }

    fn count_run(&self, run: &Run, taken: Taken) -> TakenRun {
        debug_assert_eq!(taken.moved & !run.wanted, 0, "a page that nobody wanted");
        let pages = |set: u64| (run.wanted & set).count_ones();
        let refused = pages(!taken.moved & !taken.holes);
        let c = &self.counters;
        add(&c.evictions, pages(taken.moved).into());
        add(&c.refused, refused.into());
        add(
            &c.refused_by_host,
            pages(taken.refused & !taken.moved & !taken.holes).into(),
        );
        add(&c.holes, pages(taken.holes & !taken.moved).into());
        TakenRun {
            taken: pages(taken.moved),
            refused,
            span: 64 - run.wanted.leading_zeros() as u16,
        }
    }

    /// Chooses the run around page `index` and takes its records off their queues.
    fn choose_run(
        &self,
        list: &PageList<'_, H>,
        record: u32,
        segment: SegmentId,
        index: PageIndex,
        bridged: u32,
    ) -> Result<Run, NoRun> {
        let mut queues = self.queues.lock();
        if list.get(index) != Entry::Page(record) {
            // It has gone since the queue was looked at. Should a record stand in a queue that no
            // entry names (page list I2), it must not stand in the way of all others.
            if queues.is_ageing(record) && self.queues.record(record).backlink() == (segment, index)
            {
                queues.remove(record);
                queues.give(record);
            }
            return Err(NoRun::Gone);
        }
        let base = index - index % LEAF_PAGES;
        let claimed = list.claimed(index);
        if claimed & 1 << (index - base) != 0 {
            return Err(NoRun::Busy);
        }
        let mut records = [0u32; LEAF_PAGES as usize];
        let (mut cold, mut tracked, mut away) = (0u64, 0u64, 0u64);
        let candidates = match H::MAX_RUN {
            1 => index - base..index - base + 1,
            _ => 0..LEAF_PAGES,
        };
        for n in candidates.filter(|n| claimed & 1 << n == 0) {
            match list.get(base + n) {
                Entry::Page(record) => {
                    records[n as usize] = record;
                    if queues.is_ageing(record) {
                        tracked |= 1 << n;
                    }
                    if queues.is_inactive(record) {
                        cold |= 1 << n;
                    }
                }
                // An empty page may be one that the program has dropped and the kernel has not
                // zapped yet, and a request may be fulfilled at any moment; all others are
                // missing and stay so while they are claimed.
                Entry::Empty | Entry::Request(_) => {}
                _ => away |= 1 << n,
            }
        }
        if cold & 1 << (index - base) == 0 {
            return Err(NoRun::Gone);
        }
        let wanted = bridge(cold, tracked, away, index - base, bridged);
        let first = wanted.trailing_zeros();
        let span = (!0u64 >> wanted.leading_zeros()) & (!0u64 << first);
        for n in 0..LEAF_PAGES {
            if wanted & 1 << n != 0 {
                queues.remove(records[n as usize]);
            }
        }
        records.rotate_left(first as usize);
        Ok(Run {
            first: base + first,
            wanted: wanted >> first,
            claimed: span,
            records,
        })
    }
}

/// How many active pages in a row a run may take along. Where only their age makes pages go there is no hurry, and an
/// active page stays, as RFC-0219 has it.
pub(super) fn most_bridged(trigger: Trigger) -> u32 {
    match trigger {
        Trigger::Eager => 0,
        _ => BRIDGED_PAGES,
    }
}

/// The run of cold pages around page `at`, as a set: neighbours that are cold, with pages between
/// them that are `away` (missing, their content remembered: the host leaves them out), and up to
/// `most` tracked ones in a row, which are taken along.
fn bridge(cold: u64, tracked: u64, away: u64, at: u32, most: u32) -> u64 {
    let mut run = 1u64 << at;
    let mut extend = |positions: &mut dyn Iterator<Item = u32>| {
        let mut gap = 0u64;
        for n in positions {
            let bit = 1u64 << n;
            if cold & bit != 0 {
                run |= gap | bit;
                gap = 0;
            } else if away & bit != 0 {
            } else if tracked & bit != 0 && gap.count_ones() < most {
                gap |= bit;
            } else {
                break;
            }
        }
    };
    extend(&mut (at + 1..LEAF_PAGES));
    extend(&mut (0..at).rev());
    run
}

#[cfg(test)]
mod tests {
    use super::{BRIDGED_PAGES, bridge, most_bridged};
    use crate::Trigger;

    #[test]
    fn runs_join_cold_neighbours_and_bridge_few_tracked_ones() {
        let run = |cold, tracked, at| bridge(cold, tracked, 0, at, BRIDGED_PAGES);
        assert_eq!(run(0b0111_0110, 0b1111_1111, 1), 0b0111_0110 | 0b1000);
        assert_eq!(
            run(0b0111_0110, 0b0111_0110, 1),
            0b0110,
            "a hole ends a run"
        );
        let cold = 1 | 1 << 6;
        assert_eq!(run(cold, u64::MAX, 0), 1, "five tracked pages end a run");
        assert_eq!(run(1 | 1 << 5, u64::MAX, 5), 0b11_1111);
        assert_eq!(run(u64::MAX, u64::MAX, 63), u64::MAX);
    }

    #[test]
    fn for_its_age_alone_no_active_page_is_taken() {
        let none = most_bridged(Trigger::Eager);
        assert_eq!(bridge(0b0111_0110, 0b1111_1111, 0, 1, none), 0b0110);
        assert_eq!(most_bridged(Trigger::Pressure), BRIDGED_PAGES);
    }

    #[test]
    fn runs_pass_over_pages_that_are_away() {
        let cold = 1 | 1 << 40;
        assert_eq!(bridge(cold, cold, !cold, 0, BRIDGED_PAGES), cold);
        assert_eq!(
            bridge(cold, cold, !cold & !(1 << 20), 0, BRIDGED_PAGES),
            1,
            "a hole ends a run"
        );
    }
}
