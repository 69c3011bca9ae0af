//! Pager-backed VMOs: pages that a user pager supplies, and gets back when they were written.
//!
//! ```text
//!             touched                    written               begin             end
//!   absent ──request──▶ clean ───────────────────▶ dirty ──────────▶ awaiting ──────▶ clean
//!     ▲      supply      │                           ▲     written    clean
//!     └──── evicted ─────┘                           └────────────────┘
//! ```
//!
//! An absent page is asked for through [`Memory::request`], and whoever touched it waits and looks
//! again. What the pager [supplies](Vmos::supply) is clean: it ages in the same queues as anonymous pages
//! and is evicted when its turn comes, which takes it from committed and from content, since the pager
//! has it still; or it is compressed before, if the tunables say so. A dirty page stands among the dirty
//! ones and is never reclaimed; so does one whose write-back has begun, until it ends. A page that is
//! written meanwhile is dirty again, and the end of that write-back does not clean it.
//!
//! The pager knows the VMO up to the size that it was created with, less what a resize cut off: what is
//! behind is zeros, and dirty once it is written. When that was written back the pager knows the VMO up to
//! there, and is asked for what is absent. Nothing can be supplied that it does not know. Snapshots of pager-backed VMOs, taking pages out of
//! them and transferring over them are not supported.
//!
//! Invariant:
//! * P1 A page that is not dirty is mapped by nobody for writing.

use super::family::Family;
use super::lookup::Found;
use super::object::NodeId;
use super::resolve::{Missing, Readable};
use super::{VmoError, VmoId, Vmos};
use crate::compression::worker::Worker;
use crate::machine::memory::{Memory, Place};
use crate::pages::entry::Entry;
use crate::pages::page::Dirtiness;
use crate::pages::queues::standing::Queue;
use crate::pages::tables::Growth;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Creates a VMO whose pages a pager supplies.
    pub fn create_pager_backed(&self, host: &M, pages: u64) -> Result<VmoId, VmoError> {
        let id = self.create(host, pages)?;
        let (family, node) = self.lock(id)?;
        let object = family.object(node);
        object.pager_backed.set(1);
        object.parent_limit.set(pages);
        Ok(id)
    }

    /// Whether a pager supplies its pages.
    pub fn is_pager_backed(&self, id: VmoId) -> Result<bool, VmoError> {
        let (family, node) = self.lock(id)?;
        Ok(family.is_pager_backed(node))
    }

    /// Asks for an absent page, and waits. The lock is given back.
    pub(super) fn request(
        &self,
        host: &M,
        id: VmoId,
        page: u64,
        family: Family<'_, M, C, S>,
    ) -> Result<(), VmoError> {
        let seen = host.answers(id);
        drop(family);
        match host.request(id, page, seen) {
            true => Ok(()),
            false => Err(VmoError::NotSupplied),
        }
    }

    /// Has page `page` of a pager-backed VMO in place, without writing it unless it is fresh.
    pub(super) fn commit_paged(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        page: u64,
    ) -> Result<(), VmoError> {
        loop {
            let (family, readable) = self.readable(host, worker, id, page)?;
            if let Readable::Page(..) = readable {
                return Ok(());
            }
            let (node, at) = (id.node, family.object(id.node).base.get() + page);
            let Some(found) = family.own(node, at) else {
                drop(family);
                self.writable(host, worker, id, page, Growth::Allowed)?;
                return Ok(());
            };
            // A marker or a word: a page for it, which is as clean as it.
            self.bring_back(host, worker, family, found)?;
        }
    }

    /// Shows the pages of a range that are dirty, or being written back. Under the lock: `show` is
    /// short.
    pub fn dirty_pages(
        &self,
        id: VmoId,
        pages: Range<u64>,
        mut show: impl FnMut(u64, Dirtiness),
    ) -> Result<(), VmoError> {
        self.each_paged(id, pages, |family, page, found| {
            let dirtiness = family.dirtiness(found.entry);
            if dirtiness != Dirtiness::Clean {
                show(page, dirtiness);
            }
        })
    }

    /// The pager begins to write back what is dirty in a range: it may read it now. What is written
    /// from now on is dirty again.
    pub fn writeback_begin(&self, host: &M, id: VmoId, pages: Range<u64>) -> Result<(), VmoError> {
        self.each_paged(id, pages, |family, _, found| {
            if family.dirtiness(found.entry) == Dirtiness::Dirty {
                host.protect(found.place);
                family.set_dirtiness(found.place, Dirtiness::AwaitingClean);
            }
        })
    }

    /// The pager has written back what it began to: what was not written since is clean.
    pub fn writeback_end(&self, id: VmoId, pages: Range<u64>) -> Result<(), VmoError> {
        self.each_paged(id, pages, |family, page, found| {
            if family.dirtiness(found.entry) == Dirtiness::AwaitingClean {
                family.set_dirtiness(found.place, Dirtiness::Clean);
                let known = &family.object(found.node).parent_limit;
                known.set(known.get().max(page + 1));
            }
        })
    }

    /// Evicts the clean pages of a range, compressed ones and markers too. How many.
    pub fn evict_pages(&self, host: &M, id: VmoId, pages: Range<u64>) -> Result<u64, VmoError> {
        let mut evicted = 0;
        self.each_paged(id, pages, |family, _, found| {
            evicted += u64::from(family.evict(host, found.place, found.entry));
        })?;
        Ok(evicted)
    }

    /// Evicts one page, if it is a clean one of a pager-backed VMO: what an
    /// [`EngineSource`](crate::vm::evictor::EngineSource) asks for.
    pub fn evict(&self, host: &M, place: Place) -> bool {
        let Some(list) = self.engine.page_list_if_there(place.0) else {
            return false;
        };
        let entry = list.get(place.1);
        let family = self.family_of(list.into_held());
        entry != Entry::Empty && family.evict(host, place, entry)
    }

    fn each_paged(
        &self,
        id: VmoId,
        pages: Range<u64>,
        mut act: impl FnMut(&Family<'_, M, C, S>, u64, Found),
    ) -> Result<(), VmoError> {
        let (family, node) = self.lock(id)?;
        let object = family.object(node);
        if pages.start > pages.end || pages.end > object.pages.get() {
            return Err(VmoError::OutOfRange);
        }
        if !family.is_pager_backed(node) {
            return Err(VmoError::NotSupported);
        }
        let (mut next, end) = (pages.start, pages.end);
        while let Some((page, found)) = family.next_own(node, next, end) {
            act(&family, page, found);
            next = page + 1;
        }
        Ok(())
    }

    /// Zeroes pages of a pager-backed VMO: what the pager would supply must not be seen again, so they
    /// are dirty pages of zeros.
    pub(super) fn zero_paged(
        &self,
        host: &M,
        id: VmoId,
        pages: Range<u64>,
    ) -> Result<(), VmoError> {
        let mut page = pages.start;
        while page < pages.end {
            let (family, node) = self.lock(id)?;
            if page >= family.object(node).pages.get() {
                return Ok(());
            }
            let was_absent = family.own(node, page).is_none() && family.is_absent(node, page);
            if family.zero_paged(host, node, page)? {
                if was_absent {
                    // Whoever waits for the pager need not any more, and it has nothing to say.
                    host.answered(id, page..page + 1);
                }
                page += 1;
            } else {
                drop(family);
                self.grow(host)?;
            }
        }
        Ok(())
    }

    /// Gives clean pages back to the pager.
    pub(super) fn decommit_paged(
        &self,
        host: &M,
        id: VmoId,
        pages: Range<u64>,
    ) -> Result<(), VmoError> {
        let mut dirty = false;
        self.dirty_pages(id, pages.clone(), |_, _| dirty = true)?;
        match dirty {
            true => Err(VmoError::NotSupported),
            false => self.evict_pages(host, id, pages).map(|_| ()),
        }
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    pub(super) fn is_pager_backed(&self, node: NodeId) -> bool {
        self.object(node).pager_backed.get() != 0
    }

    /// Whether an entry of `node` that is empty there means that its pager has to be asked.
    pub(super) fn is_absent(&self, node: NodeId, at: u64) -> bool {
        self.is_pager_backed(node) && at < self.object(node).parent_limit.get()
    }

    fn dirtiness(&self, entry: Entry) -> Dirtiness {
        match entry {
            Entry::Page(record) => self.engine().queues.record(record).dirtiness(),
            _ => Dirtiness::Clean,
        }
    }

    /// The page in place there, of whatever VMO, is about to be written.
    pub(super) fn written(&self, place: Place) {
        if self.entries(place.0).is_pager_backed() {
            self.set_dirtiness(place, Dirtiness::Dirty);
        }
    }

    fn set_dirtiness(&self, place: Place, dirtiness: Dirtiness) {
        let engine = self.engine();
        if let Entry::Page(record) = self.get(place) {
            {
                let queues = engine.queues.lock();
                queues.record(record).set_dirtiness(dirtiness);
            }
            if self.count(place) == 0 {
                self.stand(place, self.queue_of(place));
            }
        }
    }

    /// Whether a page is a clean one of a pager-backed VMO: a write has to be noticed.
    pub(super) fn is_clean(&self, place: Place) -> bool {
        self.entries(place.0).is_pager_backed()
            && self.dirtiness(self.get(place)) != Dirtiness::Dirty
    }

    /// Where a page stands that nobody has pinned.
    pub(super) fn queue_of(&self, place: Place) -> Queue {
        match self.dirtiness(self.get(place)) {
            Dirtiness::Clean => self.entries(place.0).queue(),
            _ => Queue::Dirty,
        }
    }

    fn evict(&self, host: &M, place: Place, entry: Entry) -> bool {
        let entries = self.entries(place.0);
        let goes = entries.is_pager_backed()
            && self.dirtiness(entry) == Dirtiness::Clean
            && self.count(place) == 0
            && entries.queue() == Queue::Reclaim
            && !matches!(entry, Entry::Poisoned);
        if goes {
            self.free(host, place, entry);
            self.engine().count_reclaimed(place.0);
        }
        goes
    }

    /// Has page `page` be a dirty page of zeros. `false`: there is no room in tables.
    fn zero_paged(&self, host: &M, node: NodeId, page: u64) -> Result<bool, VmoError> {
        let own = self.own(node, page);
        match own {
            Some(own) => match own.entry {
                Entry::Page(_) => {
                    host.zero(own.place);
                    self.written(own.place);
                    return Ok(true);
                }
                Entry::Zero => {}
                entry => self.free(host, own.place, entry),
            },
            None if !self.is_absent(node, page) => return Ok(true),
            None => {}
        }
        let marker = own.filter(|own| own.entry == Entry::Zero);
        match self.page_of_zeros(host, node, page, marker) {
            Ok(place) => {
                self.written(place);
                Ok(true)
            }
            Err(Missing::Tables) => Ok(false),
            Err(Missing::Frame) => Err(VmoError::NoMemory),
        }
    }
}
