//! Bringing content back: RFC-0219 "Decompression algorithm".
//!
//! 1. Under the VMO's lock, look at the entry and replace it by a *request* that names this
//!    worker. Whoever meets the request leaves it alone: the worker's installation wakes all who
//!    wait for the page. A page in a staging slot is copied into the worker's spare page here,
//!    under the lock, and is nobody's business any more (RFC: "make a copy of the original page").
//! 2. Without any lock, decompress into the worker's spare page and verify the checksum.
//! 3. In a stable section: if the page was not freed meanwhile, install the spare page's bytes
//!    where they now belong, then write the entry.
//!
//! Invariants:
//! * I1 A request's reference stays allocated until its worker is done; freeing the page only
//!   marks the worker's target as cancelled.
//! * I2 Content is installed only inside the stable section in which "not cancelled" was seen,
//!   so no content appears in memory that the program has dropped or replaced before. (A host that
//!   installs under the VMO's lock: with that lock held.)
//! * I3 Bytes whose checksum is wrong are never installed: the page is poisoned (law L1). So it is
//!   where the host refuses to install for a reason that it cannot name.

mod commit;
mod run;

pub use run::RUN_PAGES;
pub(crate) use run::stretch;

use crate::Engine;
use crate::compression::drivers::{self, Committed, Into, Source};
use crate::compression::fault::FaultOutcome;
use crate::compression::stored::{Header, milliseconds_since, residency_bucket, stored_at};
use crate::compression::stub::may_be_stub;
use crate::compression::worker::{Room, Worker, Workspace};
use crate::figures::counters::{add, sub};
use crate::machine::host::{Host, StagingSlot};
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::pages::page_list::PageList;
use crate::pages::patience::Returning;
use coldpress_codec::{Page, PageCodec, checksum, same_filled};
use coldpress_storage::{CompressedStorage, Reference, prefetch};
use core::sync::atomic::Ordering::Relaxed;

/// What is wrong with a stored page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Its bytes.
    Content,
    /// The link to where its other half lies: the place cannot be given back, for it could be
    /// another page's by now.
    Place,
}

/// Whether somebody waits for content that is brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// A thread has touched the page.
    Touch,
    /// Nobody has: it is read ahead, or only looked at.
    None,
}

/// Why a stored page is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its content is in place again.
    Restored,
    /// Its content is not wanted any more, or lost.
    Dropped,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Answers a touch of the page at `place` with what `entry` holds, with a request that is made
    /// under the list's lock. `None`: it was freed meanwhile.
    pub(crate) fn restore(
        &self,
        host: &H,
        worker: &mut Worker<C>,
        list: PageList<'_, H>,
        place: Place,
        entry: Entry,
    ) -> Option<FaultOutcome> {
        let outcome = self.bring_back(host, worker, list, place, entry, Demand::Touch);
        let c = &self.counters;
        match outcome {
            Some(FaultOutcome::Decompressed) => add(&c.faults_decompressed, 1),
            Some(FaultOutcome::SameFilled) => add(&c.faults_same_filled, 1),
            Some(FaultOutcome::Copied) => add(&c.faults_copied, 1),
            Some(FaultOutcome::NoMemory) => add(&c.faults_no_frame, 1),
            _ => {}
        }
        outcome
    }

    /// Brings a page back whose content is away.
    pub(crate) fn bring_back(
        &self,
        host: &H,
        worker: &mut Worker<C>,
        list: PageList<'_, H>,
        place: Place,
        entry: Entry,
        demand: Demand,
    ) -> Option<FaultOutcome> {
        if let Entry::Temporary(slot) = entry {
            return self.copy_staged(host, worker, list, place, slot);
        }
        if let Entry::Compressed(reference) = entry {
            // Its bytes are on their way while the request is made.
            prefetch(host.frames(), reference);
        }
        self.request(worker, &list, place, entry);
        drop(list);
        let ns = &mut worker.decompression_ns;
        let (outcome, decoded) = self.decode(host, worker.workspace.room(), ns, entry, demand);
        let source = match decoded {
            Ok(returning) => Source::Restored(&worker.workspace.spare, entry, returning),
            Err(_) => Source::Damaged,
        };
        let committed = drivers::commit(self, host, worker.id, source, Into::Newest);
        self.conclude(host, worker.id, place, entry, (outcome, decoded), committed)
    }

    /// The end of a restore: what `entry` held is freed, and threads that look at the wrong place are woken.
    fn conclude(
        &self,
        host: &H,
        target: u16,
        place: Place,
        entry: Entry,
        (outcome, decoded): (FaultOutcome, Result<Option<Returning>, Damage>),
        committed: Committed,
    ) -> Option<FaultOutcome> {
        match (committed, decoded) {
            // The entry holds again what it held.
            (Committed::NoFrame, _) => {}
            (_, Err(Damage::Place)) => self.give_up_stored(),
            (Committed::Done, _) => self.settle(host, entry, Fate::Restored),
            _ => self.settle(host, entry, Fate::Dropped),
        }
        self.answer(host, target, place, outcome, committed)
    }

    /// Decompresses what `reference`, which the entry at `place` holds, names into the spare page, and leaves it
    /// stored: it needs no frame. `None`: what is stored is damaged, and the page is poisoned.
    pub(crate) fn look_at<'w>(
        &self,
        host: &H,
        worker: &'w mut Worker<C>,
        list: PageList<'_, H>,
        place: Place,
        reference: Reference,
    ) -> Option<&'w Page> {
        prefetch(host.frames(), reference);
        let entry = Entry::Compressed(reference);
        self.request(worker, &list, place, entry);
        drop(list);
        let ns = &mut worker.decompression_ns;
        let (_, decoded) = self.decode(host, worker.workspace.room(), ns, entry, Demand::None);
        let source = match decoded {
            Ok(_) => Source::Stored(entry),
            Err(_) => Source::Damaged,
        };
        let committed = drivers::commit(self, host, worker.id, source, Into::Newest);
        match (committed, decoded) {
            // The entry holds again what it held.
            (Committed::NoFrame, _) => {}
            (_, Err(Damage::Place)) => self.give_up_stored(),
            // It was freed meanwhile (I1), or is damaged.
            _ => self.settle(host, entry, Fate::Dropped),
        }
        decoded.is_ok().then_some(&worker.workspace.spare)
    }

    /// Brings back a page that is in a staging slot, by a copy.
    fn copy_staged(
        &self,
        host: &H,
        worker: &mut Worker<C>,
        list: PageList<'_, H>,
        place: Place,
        slot: StagingSlot,
    ) -> Option<FaultOutcome> {
        // SAFETY: while the entry names the slot, which the held lock keeps so, the compressor has
        // not released it.
        let staged = unsafe { host.staging(slot) };
        worker.workspace.spare.copy_from_slice(staged);
        self.request(worker, &list, place, Entry::Request(worker.id));
        let source = Source::Copied(&worker.workspace.spare, slot);
        let committed = drivers::commit_copy(self, host, worker.id, list, place, source);
        self.answer(host, worker.id, place, FaultOutcome::Copied, committed)
    }

    /// What a fault was answered with, once its content was committed; threads that look at the
    /// wrong place are woken. `None`: it was freed meanwhile.
    fn answer(
        &self,
        host: &H,
        worker: u16,
        (segment, index): Place,
        outcome: FaultOutcome,
        committed: Committed,
    ) -> Option<FaultOutcome> {
        let answer = match committed {
            Committed::Cancelled => return None,
            Committed::NoFrame => return Some(FaultOutcome::NoMemory),
            Committed::Gone => {
                host.wake(segment, index);
                return Some(FaultOutcome::Gone);
            }
            Committed::Done => outcome,
            Committed::Poisoned => FaultOutcome::Poisoned,
        };
        if self.targets[worker as usize].place.get() != (segment, index) {
            // The memory moved while we worked: who waits at the old place must look again.
            host.wake(segment, index);
        }
        Some(answer)
    }

    /// Writes what `entry` holds into the page of `room`, and says what of its past goes into its new
    /// record. `ns`: the time that the worker has spent decompressing.
    fn decode(
        &self,
        host: &H,
        room: Room<'_, C>,
        ns: &mut u64,
        entry: Entry,
        demand: Demand,
    ) -> (FaultOutcome, Result<Option<Returning>, Damage>) {
        match entry {
            Entry::Compressed(reference) => {
                let started = host.now_ns();
                let header = self.load_into(host, room, reference);
                let now_ns = host.now_ns();
                let took_ns = now_ns.saturating_sub(started);
                // What waited for a device is no decompression; the host knows how long that took.
                if !may_be_stub(reference) {
                    self.counters.decompressed(took_ns);
                    *ns += took_ns;
                }
                let returning = header.map(|header| {
                    if demand == Demand::Touch {
                        self.bursts.touched(header.stored, now_ns);
                    }
                    Some(Returning {
                        patience: header.patience,
                        away_ms: milliseconds_since(header.stored, now_ns),
                        touched: demand == Demand::Touch,
                    })
                });
                (FaultOutcome::Decompressed, returning)
            }
            Entry::SameFilled(word) => {
                same_filled::fill(room.page, word);
                (FaultOutcome::SameFilled, Ok(None))
            }
            _ => {
                room.page.fill(0);
                (FaultOutcome::SameFilled, Ok(None))
            }
        }
    }

    /// Request: the entry says that `worker` restores it. `held`: what it stands for, which is the request itself
    /// where the content is in the worker's spare page already. Under the list's lock.
    pub(crate) fn request(
        &self,
        worker: &Worker<C>,
        list: &PageList<'_, H>,
        place: Place,
        held: Entry,
    ) {
        let spare = (&raw const worker.workspace.spare).cast_mut();
        self.request_into(worker.id, spare, list, place, held);
    }

    /// Makes a request by a target that has a spare page of its own.
    fn request_into(
        &self,
        id: u16,
        spare: *mut Page,
        list: &PageList<'_, H>,
        place: Place,
        held: Entry,
    ) {
        let target = &self.targets[id as usize];
        target.held.store(held.encode(), Relaxed);
        target.spare.store(spare, Relaxed);
        target.place.set(place);
        target.cancelled.store(false, Relaxed);
        list.set(place.1, Entry::Request(id));
    }

    /// Decompresses what `reference` names into the spare page, and gives its header. An error: it is not what was
    /// stored.
    pub(crate) fn load(
        &self,
        host: &H,
        workspace: &mut Workspace<C>,
        reference: Reference,
    ) -> Result<Header, Damage> {
        self.load_into(host, workspace.room(), reference)
    }

    /// The same, into the page of `room`.
    fn load_into(
        &self,
        host: &H,
        room: Room<'_, C>,
        reference: Reference,
    ) -> Result<Header, Damage> {
        let Room {
            page: spare,
            gather,
            scratch,
        } = room;
        // SAFETY: I1: the reference stays allocated while a request or the fork's stillness
        // protects it; its bytes are written once, before any entry names it.
        let bytes = unsafe { coldpress_storage::data(host.frames(), reference, gather) };
        let bytes = bytes.ok_or(Damage::Place)?;
        let (header, payload) = Header::read(bytes).ok_or(Damage::Content)?;
        let decoded = match (header.record(payload), header.same_filled) {
            (Some(record), _) => self.fetch(host, (&header, record), gather.room(), scratch, spare),
            (None, true) => payload.try_into().is_ok_and(|word| {
                same_filled::fill(spare, u64::from_le_bytes(word));
                true
            }),
            (None, false) => self.codec.decompress(scratch, payload, spare).is_ok(),
        };
        if decoded && checksum(spare) == header.checksum {
            Ok(header)
        } else {
            Err(Damage::Content)
        }
    }

    /// Frees what the replaced entry held, and keeps the gauges right.
    fn settle(&self, host: &H, entry: Entry, fate: Fate) {
        match entry {
            Entry::Compressed(reference) => self.free_stored(host, reference, fate),
            Entry::Zero | Entry::SameFilled(_) => self.counters.drop_marker(entry),
            _ => {}
        }
    }

    /// Forgets a stored page without giving its place back.
    fn give_up_stored(&self) {
        sub(&self.counters.compressed_pages, 1);
        add(&self.counters.freed_compressed, 1);
    }

    /// Frees a reference that an entry named.
    pub(crate) fn free_stored(&self, host: &H, reference: Reference, fate: Fate) {
        if fate == Fate::Restored {
            // SAFETY: not freed yet, and the time is written once, before any entry names it.
            let stored = unsafe { stored_at(host.frames(), reference) };
            let now_ns = host.now_ns();
            let bucket = stored.map_or(0, |stored| residency_bucket(stored, now_ns));
            add(&self.counters.decompressed_within_log_seconds[bucket], 1);
        }
        self.free_object(host, reference);
        sub(&self.counters.compressed_pages, 1);
        match fate {
            Fate::Restored => add(&self.counters.decompressions, 1),
            Fate::Dropped => add(&self.counters.freed_compressed, 1),
        }
    }
}
