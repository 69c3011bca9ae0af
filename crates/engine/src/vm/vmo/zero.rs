//! Zeroing and decommitting ranges.
//!
//! To be zeros, a VMO has to remember nothing, and see nothing above: where it would see something,
//! a zero marker hides that, or an interval whole stretches (`hide`). A page that is pinned is cleared
//! where it is.

use super::family::Family;
use super::lookup::Found;
use super::object::NodeId;
use super::{VmoError, VmoId, Vmos};
use crate::machine::memory::Memory;
use crate::pages::entry::Entry;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// Entries that are changed under one hold of the lock.
const AT_ONCE: u32 = 64;

/// Up to so many markers are made; where more are needed, an interval.
const MARKERS: u32 = 2;

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
            let (from, end) = (base + page, base + pages.end.min(object.pages.get()));
            let zeroed = family.zero_some(host, node, from, end);
            drop(family);
            match zeroed {
                Ok(next) if next >= end => return Ok(()),
                Ok(next) => page = next - base,
                Err(NoTables) => self.grow(host)?,
            }
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
    /// Has `node` see zeros from `from` on, up to the position that is returned: `end`, unless that
    /// would be more than can be done under one hold of the lock.
    fn zero_some(&self, host: &M, node: NodeId, from: u64, end: u64) -> Result<u64, NoTables> {
        let (mut next, mut left, mut markers, mut stop) = (from, AT_ONCE, 0, end);
        while let Some((at, found)) = self.next_seen(node, next, end) {
            let own = found.node == node;
            let pinned = own && self.count(found.place) > 0;
            if pinned && at == from {
                host.zero(found.place);
                return Ok(at + 1);
            }
            if pinned || left == 0 {
                stop = at;
                break;
            }
            left -= 1;
            markers += u32::from(self.wants_marker(node, at, found));
            next = at + 1;
        }
        if from >= stop {
            return Ok(stop);
        }
        let goes_on = from > 0 && self.interval_at(node, from - 1).is_some();
        if markers > if goes_on { 0 } else { MARKERS } {
            let zeroed = self.zero_range(host, node, from..stop);
            zeroed.map_err(|_| NoTables)?;
        } else {
            let mut next = from;
            while let Some((at, _)) = self.next_seen(node, next, stop) {
                self.zero_page(host, node, at)?;
                next = at + 1;
            }
        }
        self.prune(node, from, stop);
        Ok(stop)
    }

    /// Whether zeros in place of what `node` sees at a position need a marker, to hide what is behind.
    fn wants_marker(&self, node: NodeId, at: u64, seen: Found) -> bool {
        let shared = seen.node != node && self.count(seen.place) > 0;
        shared || self.find_above(seen.node, at).is_some()
    }

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
        if self.wants_marker(node, at, above) {
            let place = self.make_place(host, node, at).ok_or(NoTables)?;
            let record = engine.take_record().ok_or(NoTables)?;
            engine.mark_zero(&self.entries(place.0), place.1, record);
        }
        self.let_go(host, above);
        Ok(())
    }
}
