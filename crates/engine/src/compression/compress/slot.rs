//! A page in a staging slot: compressed, stored, and named by its entry; or given back.

use super::{Leaving, Reclaimer};
use crate::Engine;
use crate::compression::drivers::{self, Into, Source};
use crate::compression::stored::{Form, Header, time};
use crate::compression::worker::Worker;
use crate::figures::cause::Trigger;
use crate::figures::counters::{StorageTables, add};
use crate::machine::host::{Host, StagingSlot};
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::pages::page_list::PageList;
use crate::pages::patience::Returning;
use crate::pages::segment::Owner;
use coldpress_codec::{Compressed, Page, PageCodec, checksum};
use coldpress_storage::{CompressedStorage, Reference};
use core::sync::atomic::Ordering::{Relaxed, Release};

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Compresses the page in `slot`. Whether it is now held without a page.
    pub(super) fn compress_slot(
        &self,
        host: &H,
        reclaimer: &mut Reclaimer<C>,
        slot: StagingSlot,
        trigger: Trigger,
        leaving: Leaving,
        tables: StorageTables,
    ) -> bool {
        let c = &self.counters;
        // SAFETY: the slot was filled by this batch and is released at its end only.
        let page = unsafe { host.staging(slot) };
        let (segment, index) = self.backlinks[slot.0 as usize].get();
        let owner = self.tables.segment(segment).owner(index);
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
                    Form::Word,
                    &word.to_le_bytes(),
                ),
            }
            .ok_or(&c.no_storage),
            Compressed::Stored(len) => self
                .store(
                    host,
                    owner,
                    leaving,
                    checksum(page),
                    Form::OfCodec,
                    &out[..len],
                )
                .ok_or(&c.no_storage),
            Compressed::Incompressible => self
                .write_back_whole(host, owner, leaving, page, trigger)
                .ok_or(&c.incompressible),
        };
        c.tried(host.now_ns().saturating_sub(started));
        let entry = match stored {
            Ok(entry) => entry,
            Err(reason) => {
                c.failed(reason, tables);
                self.put_back(host, &reclaimer.worker, slot, leaving.patience);
                return false;
            }
        };
        let finalized = self.finalize(host, slot, entry, owner);
        if !finalized && let Entry::Compressed(reference) = entry {
            self.free_object(host, reference);
        }
        self.published(entry);
        if !finalized {
            c.failed(&c.raced, tables);
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
        form: Form,
        payload: &[u8],
    ) -> Option<Entry> {
        let header = Header {
            checksum,
            stored: time(host.now_ns()),
            patience: leaving.patience,
            same_filled: form == Form::Word,
            owner,
        };
        self.store_object(host, header, payload)
            .map(Entry::Compressed)
    }

    /// Has the host take a page that does not compress below memory, if pages must go, and stores its stub. `None`: it
    /// is not taken.
    fn write_back_whole(
        &self,
        host: &H,
        owner: Owner,
        leaving: Leaving,
        page: &Page,
        trigger: Trigger,
    ) -> Option<Entry> {
        if trigger == Trigger::Eager || !host.writes_back() {
            return None;
        }
        let checksum = checksum(page);
        let record = self.make_record(host, checksum, page)?;
        let number = record.to_le_bytes();
        let stub = self.store(host, owner, leaving, checksum, Form::Word, &number);
        if stub.is_none() {
            self.give_up_record(host, checksum, record);
        }
        stub
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
        self.count_reclaimed(segment);
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
            let Some((place, list)) = self.page_list_of_slot(slot) else {
                return;
            };
            self.request(worker, &list, place, Entry::Temporary(slot));
        }
        let source = Source::Staged(slot, Returning::at_once(patience));
        // Cancelled: the program dropped the page meanwhile, and `decommit` has settled everything.
        let _ = drivers::commit(self, host, worker.id, source, Into::Failed);
    }
}
