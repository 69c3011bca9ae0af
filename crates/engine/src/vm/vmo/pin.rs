//! Pinning: pages that stay where they are, for a device or for somebody who cannot fault.
//!
//! A range is committed into the VMO itself first. Then each page counts its pins beside its leaf, and
//! stands among the wired pages, which nobody reclaims. A pinned page is not decommitted, not cut off
//! by a resize, not moved, and not shared by a snapshot (whoever wrote through the pin would write into
//! the snapshot); zeroing clears it where it is.

use super::family::Family;
use super::object::NodeId;
use super::{VmoError, VmoId, Vmos};
use crate::compression::worker::Worker;
use crate::machine::memory::{Memory, Place};
use crate::pages::entry::Entry;
use crate::pages::queues::standing::Queue;
use crate::pages::tables::Growth;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// How often a page can be pinned at a time.
pub const MAX_PINS: u32 = 255;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Pins the pages of a range, which is not empty. All of them or, with an error, none.
    pub fn pin(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        pages: Range<u64>,
    ) -> Result<(), VmoError> {
        self.check_pages(id, &pages)?;
        if pages.is_empty() {
            return Err(VmoError::OutOfRange);
        }
        for page in pages.clone() {
            if let Err(error) = self.pin_page(host, worker, id, page) {
                // They are pinned, so they are still there.
                self.unpin(id, pages.start..page)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn pin_page(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        page: u64,
    ) -> Result<(), VmoError> {
        loop {
            let (family, place) = self.writable(host, worker, id, page, Growth::Allowed)?;
            if family.engine().tables.ensure_counts(place.0, place.1) {
                return family.pin(id.node, place);
            }
            drop(family);
            if !self.engine.tables.reserve_counts(host, 1) {
                return Err(VmoError::NoMemory);
            }
        }
    }

    /// Takes one pin off every page of a range. [`VmoError::BadState`] where one has none: nothing is
    /// done then.
    pub fn unpin(&self, id: VmoId, pages: Range<u64>) -> Result<(), VmoError> {
        self.check_pages(id, &pages)?;
        let (family, node) = self.lock(id)?;
        let base = family.object(node).base.get();
        let range = base + pages.start..base + pages.end;
        let pinned = |at: &u64| {
            let place = family.place(node, *at);
            place.is_some_and(|place| family.count(place) > 0)
        };
        if !range.clone().all(|at| pinned(&at)) {
            return Err(VmoError::BadState);
        }
        for place in range.filter_map(|at| family.place(node, at)) {
            family.unpin(node, place);
        }
        Ok(())
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    fn pin(&self, node: NodeId, place: Place) -> Result<(), VmoError> {
        let entries = self.entries(place.0);
        let pins = entries.count(place.1);
        if pins == MAX_PINS {
            return Err(VmoError::BadState);
        }
        entries.set_count(place.1, pins + 1);
        if pins == 0 {
            let pinned = &self.object(node).pinned;
            pinned.set(pinned.get() + 1);
            self.stand(place, Queue::Wired);
        }
        Ok(())
    }

    fn unpin(&self, node: NodeId, place: Place) {
        let entries = self.entries(place.0);
        let pins = entries.count(place.1) - 1;
        entries.set_count(place.1, pins);
        if pins == 0 {
            let pinned = &self.object(node).pinned;
            pinned.set(pinned.get() - 1);
            self.stand(place, self.queue_of(place));
        }
    }

    /// Moves the page in place there to another queue.
    pub(super) fn stand(&self, place: Place, queue: Queue) {
        let engine = self.engine();
        if let Entry::Page(record) = self.get(place) {
            engine.queues.lock().move_to(record, queue);
        }
    }

    /// Whether `node` has pinned pages in a range.
    pub(super) fn is_pinned(&self, node: NodeId, from: u64, end: u64) -> bool {
        let mut next = from;
        while self.object(node).pinned.get() > 0
            && let Some((at, own)) = self.next_own(node, next, end)
        {
            if self.count(own.place) > 0 {
                return true;
            }
            next = at + 1;
        }
        false
    }

    /// Pages of `node` that are pinned, counted again.
    pub(super) fn count_pinned(&self, node: NodeId) -> u64 {
        let (mut next, mut pinned) = (0, 0);
        while let Some((at, own)) = self.next_own(node, next, u64::MAX) {
            pinned += u64::from(self.count(own.place) > 0);
            next = at + 1;
        }
        pinned
    }
}
