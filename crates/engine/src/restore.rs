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

use crate::counters::{add, sub};
use crate::entry::Entry;
use crate::fault::FaultOutcome;
use crate::host::{Doubt, Host, Installed, StagingSlot};
use crate::memory::Place;
use crate::page::PAGER_BACKED;
use crate::page_list::PageList;
use crate::patience::Returning;
use crate::queues::standing::Queue;
use crate::stored::{Header, milliseconds_since, residency_bucket, stored_at};
use crate::worker::{Worker, Workspace};
use crate::{Engine, PageIndex, SegmentId};
use coldpress_codec::{Page, PageCodec, checksum, same_filled};
use coldpress_storage::{CompressedStorage, Reference, prefetch};
use core::sync::atomic::Ordering::Relaxed;

/// How often a worker looks at a claim before it leaves its processor to whoever holds it.
const CLAIM_SPINS: u32 = 500;

/// Queue that a restored page enters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Into {
    Newest,
    Failed,
}

/// What is wrong with a stored page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Its bytes.
    Content,
    /// The link to where its other half lies: the place cannot be given back, for it could be
    /// another page's by now.
    Place,
}

/// What is put in place.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// These bytes, restored from what the entry held.
    Restored(&'a Page, Entry, Option<Returning>),
    /// These bytes, copied from a slot in which the page is being compressed.
    Copied(&'a Page, StagingSlot),
    /// The page in a slot, which did not compress.
    Staged(StagingSlot, Returning),
    /// Nothing: what was stored is damaged.
    Damaged,
}

/// How a commit ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    Done,
    /// The entry holds again what it held; nothing was put in place.
    NoFrame,
    Poisoned,
    Cancelled,
    Gone,
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
        let outcome = self.bring_back(host, worker, list, place, entry, true);
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

    /// The same, `touched` or not.
    pub(crate) fn bring_back(
        &self,
        host: &H,
        worker: &mut Worker<C>,
        list: PageList<'_, H>,
        (segment, index): Place,
        entry: Entry,
        touched: bool,
    ) -> Option<FaultOutcome> {
        let c = &self.counters;
        match entry {
            Entry::Temporary(slot) => {
                // SAFETY: while the entry names the slot, which the held lock keeps so, the
                // compressor has not released it.
                let staged = unsafe { host.staging(slot) };
                worker.workspace.spare.copy_from_slice(staged);
            }
            // Its bytes are on their way while the request is made.
            Entry::Compressed(reference) => prefetch(host.frames(), reference),
            _ => {}
        }
        self.aim(worker, segment, index);
        list.set(index, Entry::Request(worker.id));

        let mut loaded = Ok(None);
        let (outcome, committed) = match entry {
            Entry::Temporary(slot) => {
                let source = Source::Copied(&worker.workspace.spare, slot);
                let committed = match H::UNDER_LOCK {
                    // The copy goes into the frame that is reserved for it while the slot is
                    // certain not to be released: with the lock still held.
                    true => self
                        .put_in_place(
                            host,
                            worker.id,
                            Some(list),
                            (segment, index),
                            source,
                            Into::Newest,
                        )
                        .expect("nothing changes under the lock"),
                    false => {
                        drop(list);
                        self.commit(host, worker.id, source, Into::Newest)
                    }
                };
                (FaultOutcome::Copied, committed)
            }
            entry => {
                drop(list);
                let outcome = match entry {
                    Entry::Compressed(reference) => {
                        let started = host.now_ns();
                        let header = self.load(host, worker.workspace, reference);
                        let now_ns = host.now_ns();
                        let returning = |header: Header| Returning {
                            patience: header.patience,
                            away_ms: milliseconds_since(header.stored, now_ns),
                            touched,
                        };
                        loaded = header.map(|header| Some(returning(header)));
                        let ns = now_ns.saturating_sub(started);
                        c.decompressed(ns);
                        worker.decompression_ns += ns;
                        FaultOutcome::Decompressed
                    }
                    Entry::SameFilled(word) => {
                        same_filled::fill(&mut worker.workspace.spare, word);
                        FaultOutcome::SameFilled
                    }
                    _ => {
                        worker.workspace.spare.fill(0);
                        FaultOutcome::SameFilled
                    }
                };
                let source = match loaded {
                    Ok(returning) => Source::Restored(&worker.workspace.spare, entry, returning),
                    Err(_) => Source::Damaged,
                };
                (outcome, self.commit(host, worker.id, source, Into::Newest))
            }
        };
        if committed == Committed::NoFrame {
            return Some(FaultOutcome::NoMemory);
        }
        match loaded {
            Err(Damage::Place) => self.give_up_stored(),
            _ => self.settle(host, entry, committed == Committed::Done),
        }
        match committed {
            Committed::Cancelled => return None,
            Committed::Gone => {
                host.wake(segment, index);
                return Some(FaultOutcome::Gone);
            }
            Committed::Done | Committed::Poisoned | Committed::NoFrame => {}
        }
        if self.targets[worker.id as usize].place.get() != (segment, index) {
            // The memory moved while we worked: who waits at the old place must look again.
            host.wake(segment, index);
        }
        Some(match committed {
            Committed::Poisoned => FaultOutcome::Poisoned,
            _ => outcome,
        })
    }

    /// Names what `worker` is about to restore. Under the VMO's lock, before the entry says so.
    pub(crate) fn aim(&self, worker: &Worker<C>, segment: SegmentId, index: PageIndex) {
        let target = &self.targets[worker.id as usize];
        target.place.set((segment, index));
        target.cancelled.store(false, Relaxed);
    }

    /// Decompresses what `reference` names into the spare page, and gives its header. An error: it is not what was
    /// stored.
    pub(crate) fn load(
        &self,
        host: &H,
        workspace: &mut Workspace<C>,
        reference: Reference,
    ) -> Result<Header, Damage> {
        let Workspace {
            spare,
            gather,
            scratch,
        } = workspace;
        // SAFETY: I1: the reference stays allocated while a request or the fork's stillness
        // protects it; its bytes are written once, before any entry names it.
        let bytes = unsafe { coldpress_storage::data(host.frames(), reference, gather) };
        let bytes = bytes.ok_or(Damage::Place)?;
        let (header, payload) = Header::read(bytes).ok_or(Damage::Content)?;
        let decoded = match header.same_filled {
            true => payload.try_into().is_ok_and(|word| {
                same_filled::fill(spare, u64::from_le_bytes(word));
                true
            }),
            false => self.codec.decompress(scratch, payload, spare).is_ok(),
        };
        match decoded && checksum(spare) == header.checksum {
            true => Ok(header),
            false => Err(Damage::Content),
        }
    }

    /// Puts `source` in place where the worker's target says, and writes the entry there. Where
    /// nothing can be put in place, the page is poisoned.
    pub(crate) fn commit(
        &self,
        host: &H,
        worker: u16,
        source: Source<'_>,
        into: Into,
    ) -> Committed {
        let target = &self.targets[worker as usize];
        let mut spins = 0;
        loop {
            let stable = self.stable(host);
            let place = target.place.get();
            let list = match H::UNDER_LOCK {
                true => self.page_list_if_there(place.0),
                false => None,
            };
            if H::UNDER_LOCK && target.place.get() != place {
                continue;
            }
            // A segment is freed only after the content that was to come there was cancelled.
            if target.cancelled.load(Relaxed) {
                return Committed::Cancelled;
            }
            let (segment, index) = place;
            if !H::UNDER_LOCK && self.is_claimed(segment, index) {
                drop(stable);
                spins += 1;
                match spins < CLAIM_SPINS {
                    true => core::hint::spin_loop(),
                    false => self.let_changes_in(host),
                }
                continue;
            }
            match self.put_in_place(host, worker, list, place, source, into) {
                Some(committed) => return committed,
                None => {
                    drop(stable);
                    add(&self.counters.copy_again, 1);
                    self.let_changes_in(host);
                }
            }
        }
    }

    /// The end of a commit: has the host put `source` in place and writes the entry. In a stable
    /// section, and with the VMO's lock held where pages are installed under it (`list`). `None`:
    /// the address space is changing.
    fn put_in_place(
        &self,
        host: &H,
        worker: u16,
        list: Option<PageList<'_, H>>,
        (segment, index): Place,
        source: Source<'_>,
        into: Into,
    ) -> Option<Committed> {
        let c = &self.counters;
        let returning = match source {
            Source::Restored(_, _, returning) => returning,
            Source::Staged(_, returning) => Some(returning),
            _ => None,
        };
        let (installed, doubt) = match install(host, (segment, index), source) {
            Some(Installed::Refused) => (
                host.poison(segment, index, Doubt::Refused),
                Some(&c.refused_installs),
            ),
            Some(installed) => (installed, None),
            None => (
                host.poison(segment, index, Doubt::Damaged),
                Some(&c.corrupt),
            ),
        };
        if installed == Installed::Changing {
            return None;
        }
        let list = list.unwrap_or_else(|| self.page_list(segment));
        debug_assert_eq!(list.get(index), Entry::Request(worker));
        if installed == Installed::NoFrame {
            let Source::Restored(_, entry, _) = source else {
                unreachable!("a frame was reserved for a page in staging");
            };
            if let Entry::Compressed(reference) = entry {
                self.write_owner(host, reference, list.owner(index));
            }
            list.set(index, entry);
            drop(list);
            host.wake(segment, index);
            return Some(Committed::NoFrame);
        }
        let mut queues = self.queues.lock();
        let record = if doubt.is_none() && installed != Installed::Gone {
            queues.bring_back(&self.pages)
        } else {
            queues.forget_away();
            None
        };
        let entry = match record {
            Some(record) => {
                let page = self.pages.get(record);
                page.set_backlink(segment, index);
                page.set_mark(PAGER_BACKED, list.is_pager_backed());
                if let Some(returning) = returning {
                    let most = self.tunables.second_chances() as u8;
                    page.set_patience(returning.patience(queues.turnover_ns(), most));
                }
                let into = match list.queue() {
                    Queue::Reclaim => into,
                    _ => Into::Newest,
                };
                match into {
                    Into::Newest => queues.push_to(&self.pages, record, list.queue()),
                    Into::Failed => queues.push_failed(&self.pages, record),
                }
                Entry::Page(record)
            }
            None if H::UNDER_LOCK && doubt.is_some() => Entry::Poisoned,
            None => Entry::Empty,
        };
        drop(queues);
        list.set(index, entry);
        drop(list);
        Some(match (installed, doubt) {
            (Installed::Gone, _) => {
                host.wake(segment, index);
                Committed::Gone
            }
            (_, Some(counter)) => {
                add(counter, 1);
                Committed::Poisoned
            }
            _ => Committed::Done,
        })
    }

    /// Frees what the replaced entry held, and keeps the gauges right.
    fn settle(&self, host: &H, entry: Entry, restored: bool) {
        match entry {
            Entry::Compressed(reference) => self.free_stored(host, reference, restored),
            Entry::Zero | Entry::SameFilled(_) => self.counters.drop_marker(entry),
            _ => {}
        }
    }

    /// Forgets a stored page without giving its place back.
    fn give_up_stored(&self) {
        sub(&self.counters.compressed_pages, 1);
        add(&self.counters.freed_compressed, 1);
    }

    /// Frees a reference that an entry named. `restored`: its content is in place again.
    pub(crate) fn free_stored(&self, host: &H, reference: Reference, restored: bool) {
        if restored {
            // SAFETY: not freed yet, and the time is written once, before any entry names it.
            let stored = unsafe { stored_at(host.frames(), reference) };
            let now_ns = host.now_ns();
            let bucket = stored.map_or(0, |stored| residency_bucket(stored, now_ns));
            add(&self.counters.decompressed_within_log_seconds[bucket], 1);
        }
        self.storage.lock().free(host.frames(), reference);
        sub(&self.counters.compressed_pages, 1);
        match restored {
            true => add(&self.counters.decompressions, 1),
            false => add(&self.counters.freed_compressed, 1),
        }
    }
}

/// Has the host put `source` in place. `None`: there is nothing to put there.
fn install<H: Host>(host: &H, (segment, index): Place, source: Source<'_>) -> Option<Installed> {
    match source {
        Source::Restored(page, ..) => Some(host.install(segment, index, page)),
        Source::Copied(page, slot) => Some(host.install_copy(segment, index, page, slot)),
        // SAFETY: the reclaimer commits the page in its own slot, which it releases later, and
        // does not read it any more.
        Source::Staged(slot, _) => Some(unsafe { host.put_back(segment, index, slot) }),
        Source::Damaged => None,
    }
}
