//! Zeroing and decommitting ranges.
//!
//! To be zeros, a VMO has to remember nothing, and see nothing above: where it would see something,
//! a zero marker hides that. A page that is pinned is cleared where it is.

use super::family::Family;
use super::object::NodeId;
use super::{VmoError, VmoId, Vmos};
use crate::entry::Entry;
use crate::memory::Memory;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// Entries that are changed under one hold of the lock.
const AT_ONCE: u32 = 64;

/// There is no room in tables for a marker.
struct NoTables;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Has the pages of a range read as zeros, without keeping pages for them.
    pub fn zero(&self, host: &M, id: VmoId, pages: Range<u64>) -> Result<(), VmoError> {
        self.check_pages(id, &pages)?;
        if self.is_pager_backed(id)? {
            return self.zero_paged(host, id, pages);
        }
        let mut page = pages.start;
        loop {
            let (family, node) = self.lock(id)?;
            let object = family.object(node);
            let base = object.base.get();
            let (mut at, end) = (base + page, base + pages.end.min(object.pages.get()));
            let (mut left, mut full) = (AT_ONCE, false);
            let done = loop {
                let Some((next, _)) = family.next_seen(node, at, end) else {
                    break true;
                };
                at = next;
                if left == 0 {
                    break false;
                }
                left -= 1;
                if family.zero_page(host, node, at).is_err() {
                    full = true;
                    break false;
                }
                at += 1;
            };
            if base + page < at.min(end) {
                family.prune(node, base + page, at.min(end));
            }
            drop(family);
            if done {
                return Ok(());
            }
            if full {
                self.grow(host)?;
            }
            page = at - base;
        }
    }

    /// Gives the pages of a range back: they read as zeros from now on. Refused where one is pinned.
    /// A VMO that sees pages of a snapshot may only hide them, as zeroing does.
    pub fn decommit(&self, host: &M, id: VmoId, pages: Range<u64>) -> Result<(), VmoError> {
        self.check_pages(id, &pages)?;
        {
            let (family, node) = self.lock(id)?;
            let base = family.object(node).base.get();
            if family.is_pinned(node, base + pages.start, base + pages.end) {
                return Err(VmoError::BadState);
            }
        }
        match self.is_pager_backed(id)? {
            true => self.decommit_paged(host, id, pages),
            false => self.zero(host, id, pages),
        }
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    /// Has `node` see zeros at a position.
    fn zero_page(&self, host: &M, node: NodeId, at: u64) -> Result<(), NoTables> {
        let engine = self.engine();
        let above = self.find_above(node, at);
        if let Some(own) = self.own(node, at) {
            let entries = self.entries(own.place.0);
            if entries.count(own.place.1) > 0 {
                host.zero(own.place);
                return Ok(());
            }
            if above.is_none() {
                self.free(host, own.place, own.entry);
                return Ok(());
            }
            if let Entry::Page(_) = own.entry {
                host.drop_page(own.place);
            }
            if !engine.blank(host, &entries, own.place.1) {
                return Err(NoTables);
            }
            if let Entry::Request(_) = own.entry {
                host.wake(own.place.0, own.place.1);
            }
            return Ok(());
        }
        let Some(above) = above else {
            return Ok(());
        };
        // Where nobody else sees what it hides, and nothing is behind, no marker is needed.
        if self.count(above.place) > 0 || self.find_above(above.node, at).is_some() {
            let place = self.make_place(host, node, at).ok_or(NoTables)?;
            let record = engine.take_record().ok_or(NoTables)?;
            engine.mark_zero(&self.entries(place.0), place.1, record);
        }
        self.let_go(host, above);
        Ok(())
    }
}
