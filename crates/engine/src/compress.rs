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

use crate::cause::Trigger;
use crate::counters::add;
use crate::entry::Entry;
use crate::host::{Host, StagingSlot};
use crate::memory::Place;
use crate::metrics::kept::Origin;
use crate::page::PageRecord;
use crate::page_list::PageList;
use crate::patience::Returning;
use crate::queues::{Ageing, Wanted};
use crate::restore::{Committed, Into, Source};
use crate::segment::Owner;
use crate::stored::{Header, time};
use crate::worker::Worker;
use crate::{Engine, LEAF_PAGES, PageIndex, STAGING_SLOTS, SegmentId};
use coldpress_codec::{Compressed, PAGE_SIZE, PageCodec, checksum};
use coldpress_storage::{CompressedStorage, Reference};
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// Active pages between cold ones that are taken along rather than splitting a run: a second
/// call to the kernel costs as much as restoring four pages (17 µs against 4 µs each).
const BRIDGED_PAGES: u32 = 4;

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

/// A run that is to be taken.
struct Run {
    first: PageIndex,
    /// Bit n: page `first + n`.
    wanted: u64,
    /// Bit n: page n of the leaf, from the first to the last that is wanted.
    claimed: u64,
    records: [u32; LEAF_PAGES as usize],
}

/// Pages that one batch passes over before it ends, taken or not: some milliseconds.
const MOST_SPARED: u32 = 1 << 14;

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

/// A run that was taken.
struct TakenRun {
    taken: u32,
    refused: u32,
    /// Slots that it spans.
    span: u16,
}

/// Why there is no run.
enum NoRun {
    /// The page is no longer what the queue said.
    Gone,
    /// Another reclaimer is taking pages around it.
    Busy,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Ages the queues; `pressed`: pages must go, and ageing may hurry (see [`Ageing`]).
    /// Returns how many pages could be reclaimed now.
    pub fn age(&self, host: &H, ageing: &Ageing, pressed: bool) -> u32 {
        let mut queues = self.queues.lock();
        queues.age(&self.pages, ageing, host.now_ns(), pressed);
        queues.inactive_pages()
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
        match pages > 0 && self.can_compress() {
            true => self.reclaim_wanted(host, reclaimer, pages, &Wanted::PICKED, Trigger::Eager),
            false => Batch::default(),
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
        // A host that takes pages under their VMO's lock reserves one frame for each page that
        // is in staging, so there is one run at a time, and not a batch of them.
        while self.take_and_compress(host, reclaimer, pages, wanted, trigger, &mut batch)
            && H::UNDER_LOCK
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
        for _ in 0..if H::UNDER_LOCK { 1 } else { pages } {
            if taken >= pages || slots + H::MAX_RUN as u16 > end - start {
                break;
            }
            let Some((record, place)) = self.oldest(host, wanted, &mut batch.spared) else {
                break;
            };
            found = true;
            let slot = StagingSlot(start + slots);
            let of_run = &mut leaving[usize::from(slots)..];
            let bridged = most_bridged(trigger);
            let Some(run) = self.take_run(host, record, place, slot, of_run, bridged) else {
                continue;
            };
            slots += run.span;
            taken += run.taken;
            batch.refused += run.refused;
        }
        batch.taken += taken;
        let reserved = taken == 0 || self.storage.lock().reserve(host, taken);
        if !reserved {
            add(&self.counters.no_metadata, 1);
        }
        for slot in 0..slots {
            let Some(leaving) = leaving[usize::from(slot)] else {
                continue;
            };
            let slot = StagingSlot(start + slot);
            if self.compress_slot(host, reclaimer, slot, trigger, leaving, reserved) {
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
            let (found, spared) = queues.search(&self.pages, wanted);
            *all_spared += spared;
            add(&self.counters.second_chances, spared.into());
            if let Some(record) = found {
                queues.note_turnover(&self.pages, record, host.now_ns());
                return Some((record, self.pages.get(record).backlink()));
            }
            if spared == 0 {
                break;
            }
        }
        None
    }

    /// Takes the run of cold pages around a page into the slots from `slot`, and says by slot what
    /// is to be remembered of them; `bridged` active ones in a row at most are taken along. `None`: the page is no longer what the queue said, or another reclaimer
    /// is at it.
    fn take_run(
        &self,
        host: &H,
        record: u32,
        (segment, index): (SegmentId, PageIndex),
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
            queues.push_newest(&self.pages, run.records[0]);
            add(&self.counters.accessed, 1);
            return None;
        }
        let (taken, list) = match H::UNDER_LOCK {
            true => (host.take(segment, run.first, run.wanted, slot), list),
            false => {
                list.claim(index, run.claimed);
                drop(list);
                let taken = host.take(segment, run.first, run.wanted, slot);
                let list = self.page_list(segment);
                list.end_claim(index, run.claimed);
                (taken, list)
            }
        };
        let mut queues = self.queues.lock();
        let mut refused = 0;
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
                *leaving = Some(Leaving::of(self.pages.get(record)));
                queues.send_away(&self.pages, record);
            } else if taken.holes & bit != 0 {
                list.set(index, Entry::Empty);
                self.pages.give(record);
            } else if taken.refused & bit != 0 {
                queues.push_failed(&self.pages, record);
                refused += 1;
            } else {
                queues.push_newest(&self.pages, record);
                refused += 1;
            }
        }
        add(
            &self.counters.evictions,
            u64::from(taken.moved.count_ones()),
        );
        let c = &self.counters;
        add(&c.refused, u64::from(refused));
        add(
            &c.refused_by_host,
            u64::from((run.wanted & taken.refused & !taken.moved & !taken.holes).count_ones()),
        );
        add(
            &c.holes,
            u64::from((run.wanted & taken.holes & !taken.moved).count_ones()),
        );
        Some(TakenRun {
            taken: taken.moved.count_ones(),
            refused,
            span: 64 - run.wanted.leading_zeros() as u16,
        })
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
            if queues.is_ageing(&self.pages, record)
                && self.pages.get(record).backlink() == (segment, index)
            {
                queues.remove(&self.pages, record);
                self.pages.give(record);
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
                    if queues.is_ageing(&self.pages, record) {
                        tracked |= 1 << n;
                    }
                    if queues.is_inactive(&self.pages, record) {
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
                queues.remove(&self.pages, records[n as usize]);
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

    /// Compresses the page in `slot`. Whether it is now held without a page. `reserved`: the
    /// tables of storage have room for it.
    fn compress_slot(
        &self,
        host: &H,
        reclaimer: &mut Reclaimer<C>,
        slot: StagingSlot,
        trigger: Trigger,
        leaving: Leaving,
        reserved: bool,
    ) -> bool {
        let c = &self.counters;
        // SAFETY: the slot was filled by this batch and is released at its end only.
        let page = unsafe { host.staging(slot) };
        let (segment, index) = self.backlinks[slot.0 as usize].get();
        let owner = self.segments.get(segment).owner(index);
        let started = host.now_ns();
        let out = &mut reclaimer.buffer[..self.target_bytes()];
        let stored = match self.codec.compress(reclaimer.state, page, out) {
            Compressed::SameFilled(word) => match Entry::same_filled(word) {
                Some(marker) => Some(marker),
                None => self.store(
                    host,
                    owner,
                    leaving,
                    checksum(page),
                    true,
                    &word.to_le_bytes(),
                ),
            }
            .ok_or(&c.no_storage),
            Compressed::Stored(len) => self
                .store(host, owner, leaving, checksum(page), false, &out[..len])
                .ok_or(&c.no_storage),
            Compressed::Incompressible => Err(&c.incompressible),
        };
        c.tried(host.now_ns().saturating_sub(started));
        let entry = match stored {
            Ok(entry) => entry,
            Err(reason) => {
                c.failed(reason, reserved);
                self.put_back(host, &reclaimer.worker, slot, leaving.patience);
                return false;
            }
        };
        let finalized = self.finalize(host, slot, entry, owner);
        if !finalized && let Entry::Compressed(reference) = entry {
            self.storage.lock().free(host.frames(), reference);
        }
        self.published(entry);
        if !finalized {
            c.failed(&c.raced, reserved);
            return false;
        }
        c.kept(trigger, leaving.origin, entry);
        true
    }

    /// Stores a payload behind its header. `None`: no room. What is stored is *unpublished* until
    /// [`published`](Self::published) is called.
    fn store(
        &self,
        host: &H,
        owner: Owner,
        leaving: Leaving,
        checksum: u32,
        same_filled: bool,
        payload: &[u8],
    ) -> Option<Entry> {
        let header = Header {
            checksum,
            stored: time(host.now_ns()),
            patience: leaving.patience,
            same_filled,
            owner,
        };
        self.store_object(host, header, payload)
            .map(Entry::Compressed)
    }

    /// Stores an object, which is unpublished.
    pub(crate) fn store_object(
        &self,
        host: &H,
        header: Header,
        payload: &[u8],
    ) -> Option<Reference> {
        let header = header.to_bytes();
        let len = header.len() + payload.len();
        let reference = {
            let mut storage = self.storage.lock();
            let reference = storage.allocate(host.frames(), len)?;
            self.unpublished.fetch_add(1, Relaxed);
            reference
        };
        // SAFETY: just allocated, so nobody else reads or writes these bytes; nor does
        // compaction, while something is unpublished.
        unsafe { coldpress_storage::write(host.frames(), reference, &[&header, payload]) };
        Some(reference)
    }

    /// What was stored stands in an entry, or is freed.
    pub(crate) fn published(&self, entry: Entry) {
        if let Entry::Compressed(_) = entry {
            self.unpublished.fetch_sub(1, Release);
        }
    }

    /// Replaces the temporary reference by `entry`, if it still stands. `owner`: what the
    /// stored object names.
    fn finalize(&self, host: &H, slot: StagingSlot, entry: Entry, owner: Owner) -> bool {
        let _stable = self.stable(host);
        let Some(((segment, index), list)) = self.page_list_of_slot(slot) else {
            return false;
        };
        match entry {
            Entry::Compressed(reference) => {
                add(&self.counters.compressed_pages, 1);
                if list.owner(index) != owner {
                    // It moved while it was compressed.
                    self.write_owner(host, reference, list.owner(index));
                }
            }
            marker => self.counters.add_marker(marker),
        }
        list.set(index, entry);
        self.reclaimed(segment);
        true
    }

    /// Locks the VMO that the page in a slot belongs to, wherever that has moved. `None`: its
    /// temporary reference stands nowhere any more.
    fn page_list_of_slot(&self, slot: StagingSlot) -> Option<(Place, PageList<'_, H>)> {
        let link = &self.backlinks[slot.0 as usize];
        loop {
            let place = link.get();
            let list = self.page_list_if_there(place.0);
            if link.get() == place {
                let list = list?;
                let stands = list.get(place.1) == Entry::Temporary(slot);
                return stands.then_some((place, list));
            }
        }
    }

    /// Gives a page that cannot be held compressed back to the program.
    fn put_back(&self, host: &H, worker: &Worker<C>, slot: StagingSlot, patience: u8) {
        {
            let _stable = self.stable(host);
            let Some(((segment, index), list)) = self.page_list_of_slot(slot) else {
                return;
            };
            self.aim(worker, segment, index);
            list.set(index, Entry::Request(worker.id));
        }
        let source = Source::Staged(slot, Returning::at_once(patience));
        if self.commit(host, worker.id, source, Into::Failed) == Committed::Cancelled {
            // The program dropped the page meanwhile; `decommit` has settled everything.
        }
    }
}

/// How many active pages in a row a run may take along. Where only their age makes pages go there is no hurry, and an
/// active page stays, as RFC-0219 has it.
fn most_bridged(trigger: Trigger) -> u32 {
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
