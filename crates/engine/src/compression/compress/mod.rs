//! Taking cold pages out and compressing them: RFC-0219 "Compression algorithm".
//!
//! A batch takes runs of neighbouring cold pages (taking a mapping away costs the same for one
//! page as for sixty-four), then compresses page by page, then gives the staging slots back at
//! once. For each page, in the RFC's order:
//!
//! ```text
//!  stable ┌ VMO lock: choose pages that are inactive, take them off their queues
//!         │ the host takes the run out (without the lock)
//!         └ VMO lock: entry = temporary reference (the staging slot)
//!  no lock: checksum and compress into the reclaimer's buffer
//!  storage lock: allocate a place · no lock: copy the result there
//!  stable ┌ VMO lock: if the entry still is our temporary reference,
//!         └           entry = compressed reference, else drop the result
//! ```
//!
//! Invariants:
//! * I1 A slot is released only when no entry names it.
//! * I2 Only tracked pages are asked of the host: a page that the program has dropped, but whose
//!   memory the kernel has not zapped yet, is not tracked and so never taken.
//! * I3 The pages of a run, and those between them whose content is away, are *claimed* while the
//!   host takes it: a worker that would put something in place there waits until the claim ends
//!   (some microseconds). So the host meets no page it was not asked for, and nobody takes a page
//!   that is between program and staging for one that was dropped.

pub(crate) mod run;
mod slot;

use crate::compression::kept::Origin;
use crate::compression::worker::Worker;
use crate::figures::cause::Trigger;
use crate::figures::counters::{StorageTables, add};
use crate::machine::host::{Host, StagingSlot};
use crate::machine::memory::Place;
use crate::pages::page::PageRecord;
use crate::pages::queues::{Ageing, Pace, Wanted};
use crate::{Engine, STAGING_SLOTS};
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// The one thread that compresses: its codec state, its buffer, and itself as a worker (a page
/// that does not compress is put back by it).
pub struct Reclaimer<C: PageCodec + 'static> {
    state: &'static mut C::State,
    buffer: &'static mut [u8; PAGE_SIZE],
    worker: Worker<C>,
    /// The staging slots that are its own.
    slots: Range<u16>,
}

impl<C: PageCodec> Reclaimer<C> {
    /// A reclaimer from memory of its own, a worker id of its own, and staging slots of its own.
    ///
    /// # Panics
    /// If there are no such slots, or fewer than a run of the host may take
    /// ([`Host::MAX_RUN`]): that is checked when it reclaims.
    pub fn new(
        state: &'static mut C::State,
        buffer: &'static mut [u8; PAGE_SIZE],
        worker: Worker<C>,
        slots: Range<u16>,
    ) -> Self {
        assert!(!slots.is_empty() && usize::from(slots.end) <= STAGING_SLOTS);
        Self {
            state,
            buffer,
            worker,
            slots,
        }
    }
}

impl<C: PageCodec> Reclaimer<C> {
    /// Its worker, with which it may answer faults itself.
    pub fn worker(&mut self) -> &mut Worker<C> {
        &mut self.worker
    }
}

/// What a batch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Pages taken out of the program.
    pub taken: u32,
    /// Of these: pages that are now compressed or markers.
    pub kept: u32,
    /// Pages that were considered and could not be taken.
    pub refused: u32,
    /// Pages that were passed over, and have a chance less.
    pub spared: u32,
}

impl Batch {
    /// What two batches did together.
    pub fn and(self, other: Self) -> Self {
        Self {
            taken: self.taken + other.taken,
            kept: self.kept + other.kept,
            refused: self.refused + other.refused,
            spared: self.spared + other.spared,
        }
    }
}

/// What is remembered of a page whose record is given back.
#[derive(Clone, Copy)]
struct Leaving {
    origin: Origin,
    patience: u8,
}

impl Leaving {
    fn of(page: &PageRecord) -> Self {
        Self {
            origin: Origin::of(page),
            patience: page.patience(),
        }
    }
}

/// Pages that one batch passes over before it ends, taken or not: some milliseconds.
const MOST_SPARED: u32 = 1 << 14;

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Ages the queues (see [`Ageing`]).
    /// Returns how many pages could be reclaimed now.
    pub fn age(&self, host: &H, ageing: &Ageing, pace: Pace) -> u32 {
        self.queues.lock().age(ageing, host.now_ns(), pace);
        self.retry_failed(host, ageing.retry_failed_ns);
        self.queues.lock().inactive_pages()
    }

    /// Pages on the list of those that could not be compressed or taken.
    pub fn failed_pages(&self) -> u32 {
        self.queues.lock().failed_pages()
    }

    /// Takes out and compresses up to `pages` of the oldest pages that were last known to be
    /// touched before `touched_before_ns`. Several reclaimers may do so at once.
    pub fn reclaim_batch(
        &self,
        host: &H,
        reclaimer: &mut Reclaimer<C>,
        pages: u32,
        touched_before_ns: u64,
        trigger: Trigger,
    ) -> Batch {
        match self.compressible(trigger, touched_before_ns) {
            Some(wanted) => self.reclaim_wanted(host, reclaimer, pages, &wanted, trigger),
            None => Batch::default(),
        }
    }

    /// Compresses so many of the pages that were picked, and whatever else goes before all others,
    /// where anything may be compressed.
    pub fn compress_picked(&self, host: &H, reclaimer: &mut Reclaimer<C>, pages: u32) -> Batch {
        if pages > 0 && self.can_compress() {
            self.reclaim_wanted(host, reclaimer, pages, &Wanted::PICKED, Trigger::Eager)
        } else {
            Batch::default()
        }
    }

    /// The same for pages of certain kinds and ages.
    pub(crate) fn reclaim_wanted(
        &self,
        host: &H,
        reclaimer: &mut Reclaimer<C>,
        pages: u32,
        wanted: &Wanted,
        trigger: Trigger,
    ) -> Batch {
        let mut batch = Batch::default();
        while self.take_and_compress(host, reclaimer, pages, wanted, trigger, &mut batch)
            && !H::PROTOCOL.stages_several_runs()
            && batch.taken + batch.refused < pages
        {}
        batch
    }

    /// Fills the reclaimer's slots, compresses what is in them and gives them back. Whether any
    /// page was found that is old enough.
    fn take_and_compress(
        &self,
        host: &H,
        reclaimer: &mut Reclaimer<C>,
        pages: u32,
        wanted: &Wanted,
        trigger: Trigger,
        batch: &mut Batch,
    ) -> bool {
        let Range { start, end } = reclaimer.slots;
        assert!(u32::from(end - start) >= H::MAX_RUN, "too few slots");
        let mut slots = 0;
        // The pages that the slots hold; some hold none.
        let mut leaving = [None; STAGING_SLOTS];
        let (mut found, mut taken) = (false, 0);
        let most_runs = if H::PROTOCOL.stages_several_runs() {
            pages
        } else {
            1
        };
        host.begin_taking();
        for _ in 0..most_runs {
            if taken >= pages || slots + H::MAX_RUN as u16 > end - start {
                break;
            }
            let Some((record, place)) = self.oldest(host, wanted, &mut batch.spared) else {
                break;
            };
            found = true;
            let slot = StagingSlot(start + slots);
            let of_run = &mut leaving[usize::from(slots)..];
            let bridged = run::most_bridged(trigger);
            let Some(run) = self.take_run(host, record, place, slot, of_run, bridged) else {
                continue;
            };
            slots += run.span;
            taken += run.taken;
            batch.refused += run.refused;
        }
        host.end_taking();
        batch.taken += taken;
        let tables = if taken == 0 || self.storage.lock().reserve(host, taken) {
            StorageTables::HadRoom
        } else {
            add(&self.counters.no_metadata, 1);
            StorageTables::Full
        };
        for slot in 0..slots {
            let Some(leaving) = leaving[usize::from(slot)] else {
                continue;
            };
            let slot = StagingSlot(start + slot);
            if self.compress_slot(host, reclaimer, slot, trigger, leaving, tables) {
                batch.kept += 1;
            }
        }
        if slots > 0 {
            host.release(StagingSlot(start), slots.into());
        }
        found
    }

    /// The page that goes next, and where it belongs. Those that have patience are passed over, some
    /// at a time under the queue lock.
    fn oldest(&self, host: &H, wanted: &Wanted, all_spared: &mut u32) -> Option<(u32, Place)> {
        while *all_spared < MOST_SPARED {
            let mut queues = self.queues.lock();
            let (found, spared) = queues.search(wanted);
            *all_spared += spared;
            add(&self.counters.second_chances, spared.into());
            if let Some(record) = found {
                queues.note_turnover(record, host.now_ns());
                return Some((record, self.queues.record(record).backlink()));
            }
            if spared == 0 {
                break;
            }
        }
        None
    }
}
