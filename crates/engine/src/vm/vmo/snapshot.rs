//! Snapshots: what a VMO, or a part of it, holds now, as a VMO of its own.
//!
//! ```text
//!    G                G
//!    │                │
//!    V    snapshot    H    takes V's page list whole: nothing is copied, no entry is written;
//!         of V        ├──┐ mappings of its pages lose the right to write
//!                     V  C
//! ```
//!
//! Every entry of V becomes one of H; those inside C's part are seen by V and C (count 1), the others
//! by V alone (count 0). What V saw further up, C now sees too, as far as its part goes: those counts
//! rise by one. Where V holds nothing itself, C stands beside it, and there is no H. So a snapshot takes a time in proportion to what it shares, and a table of counters for
//! each leaf of V; nothing is decompressed.

use super::family::Family;
use super::object::{Kind, NodeId};
use super::{MAX_PAGES, MAX_POSITION, VmoError, VmoId, Vmos};
use crate::machine::memory::Memory;
use crate::pages::entry::Entry;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// A VMO that holds what pages `pages` of `id` hold now. It may reach beyond the end of `id`, but
    /// not begin there; what is beyond reads as zeros. Refused while pages of `id` are pinned, and where some
    /// 65,000 VMOs are related already.
    pub fn snapshot(&self, host: &M, id: VmoId, pages: Range<u64>) -> Result<VmoId, VmoError> {
        if pages.start > pages.end || pages.end - pages.start > MAX_PAGES {
            return Err(VmoError::OutOfRange);
        }
        let hidden = self.new_object(host).ok_or(VmoError::NoMemory)?;
        let Some(child) = self.new_object(host) else {
            self.give_object(hidden);
            return Err(VmoError::NoMemory);
        };
        // What is not needed of them goes back.
        let done = self.snapshot_into(host, id, pages, hidden, child);
        if done.is_err() {
            self.give_object(hidden);
            self.give_object(child);
        }
        done
    }

    fn snapshot_into(
        &self,
        host: &M,
        id: VmoId,
        pages: Range<u64>,
        hidden: NodeId,
        child: NodeId,
    ) -> Result<VmoId, VmoError> {
        loop {
            let (family, node) = self.lock(id)?;
            let object = family.object(node);
            let base = object.base.get() + pages.start;
            let end = base + (pages.end - pages.start);
            if pages.start > object.pages.get() || end > MAX_POSITION {
                return Err(VmoError::OutOfRange);
            }
            if family.is_pager_backed(node) {
                return Err(VmoError::NotSupported);
            }
            if family.is_pinned(node, object.base.get(), object.end_position()) {
                return Err(VmoError::BadState);
            }
            // The VMO, and what both see.
            if !family.has_room_for(2) {
                return Err(VmoError::BadState);
            }
            let holds = family.next_own(node, 0, u64::MAX).is_some();
            let wanting = if holds { family.add_counts(node) } else { 0 };
            if wanting > 0 {
                drop(family);
                if !self.engine.tables.reserve_counts(host, wanting) {
                    return Err(VmoError::NoMemory);
                }
                continue;
            }
            let copies = match family.copy_intervals(host, node, &(base..end), holds) {
                Ok(copies) => copies,
                Err(tables) => {
                    drop(family);
                    if !self.prepare_for(host, tables, tables, 0) {
                        return Err(VmoError::NoMemory);
                    }
                    continue;
                }
            };
            if !holds {
                // All that it sees stands above already: they are side by side.
                self.give_object(hidden);
                family.begin_child(node, child, base..end);
                if object.parent.get() != 0 {
                    family.adopt(object.parent.get(), child);
                }
                family.give_intervals(&copies, node, child);
                family.join(1);
                family.share_above(node, child);
                return Ok(self.id_of(child));
            }
            family.drop_intervals(node);
            family.hide(node, hidden);
            family.begin_child(node, child, base..end);
            family.adopt(hidden, child);
            family.give_intervals(&copies, node, child);
            family.join(2);
            family.share_own(host, hidden, child);
            family.share_above(hidden, child);
            return Ok(self.id_of(child));
        }
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    /// Puts `hidden` in the place of `node`, with all that it holds and sees, and `node` below it.
    fn hide(&self, node: NodeId, hidden: NodeId) {
        let below = self.object(node);
        let object = self.vmos.objects.get(hidden);
        object.begin(Kind::Hidden, below.base.get(), 0, self.id());
        object.root.set(below.root.get());
        object.parent_limit.set(below.parent_limit.get());
        object.marks.set(below.marks.get());
        // The segments go on counting for the same account.
        let fresh = object.account.get();
        object.account.set(below.account.get());
        below.account.set(fresh);
        self.replace(node, hidden);
        self.adopt(hidden, node);
        below.root.set(0);
        below.parent_limit.set(below.end_position());
    }

    /// Makes a VMO of `child`, for these positions, which sees as far as `node` does.
    fn begin_child(&self, node: NodeId, child: NodeId, at: Range<u64>) {
        let below = self.object(node);
        let object = self.vmos.objects.get(child);
        object.begin(Kind::Vmo, at.start, at.end - at.start, self.id());
        let limit = below.parent_limit.get().min(below.end_position());
        object.parent_limit.set(at.end.min(limit));
    }

    /// The positions at which a VMO sees what is above it.
    fn sight(&self, child: NodeId) -> Range<u64> {
        let child = self.object(child);
        child.base.get()..child.parent_limit.get()
    }

    /// Counts `child` among those that see what `hidden` holds.
    fn share_own(&self, host: &M, hidden: NodeId, child: NodeId) {
        let part = self.sight(child);
        let mut next = 0;
        while let Some((at, found)) = self.next_own(hidden, next, u64::MAX) {
            if let Entry::Page(_) = found.entry {
                host.protect(found.place);
            }
            let shares = u32::from(part.contains(&at));
            self.entries(found.place.0).set_count(found.place.1, shares);
            next = at + 1;
        }
    }

    /// Counts `child` among those that see what `node` sees of those above it.
    fn share_above(&self, node: NodeId, child: NodeId) {
        let part = self.sight(child);
        let mut next = part.start;
        while let Some((at, found)) = self.next_inherited(node, next, part.end) {
            if let Some(last) = self.interval_at(child, at) {
                next = last + 1;
                continue;
            }
            let entries = self.entries(found.place.0);
            entries.set_count(found.place.1, entries.count(found.place.1) + 1);
            next = at + 1;
        }
    }

    /// Gives every leaf of `node` counters, all 0, or none of them any: how many are wanting.
    fn add_counts(&self, node: NodeId) -> u32 {
        self.engine()
            .tables
            .add_counts(|| self.directory(node).segments())
    }
}
