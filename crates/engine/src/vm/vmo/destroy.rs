//! The end of a VMO, and what becomes of the hidden node above it.
//!
//! ```text
//!      G                  G
//!      │                  │
//!      H      V ends      │        H has one child left: S takes over its entries,
//!     / \    ───────▶     S        its parent and the bounds of its sight
//!    V   S
//! ```
//!
//! Where more than one child is left, H stays. First V lets go of all it sees above. Every entry that is left in H is then seen by S or by VMOs
//! below it (V2), so S has none of its own there; it gets them as they are, in whole segments and
//! leaves where it has none. That needs no memory, so no VMO fails to end.

use super::family::Family;
use super::object::{Kind, NodeId, Object};
use super::{VmoError, VmoId, Vmos};
use crate::LEAF_PAGES;
use crate::machine::memory::Memory;
use crate::pages::entry::Entry;
use crate::pages::segment::LEAVES;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Ends a VMO: what only it sees is freed, also what is being compressed or restored in this
    /// moment. Refused while pages are pinned.
    pub fn destroy(&self, host: &M, id: VmoId) -> Result<(), VmoError> {
        let (family, node) = self.lock(id)?;
        let object = family.object(node);
        let (base, end) = (object.base.get(), object.end_position());
        if family.is_pinned(node, base, end) {
            return Err(VmoError::BadState);
        }
        family.let_go_inherited(host, node, base, end);
        family.free_own(host, node, base, end);
        family.mark(node, object.marks.get(), u32::wrapping_sub);
        if family.is_pager_backed(node) {
            host.answered(id, 0..object.pages.get());
        }
        let hidden = object.parent.get();
        if hidden != 0 {
            family.disown(node);
        }
        object.end();
        self.give_object(node);
        let mut alive = family.leave();
        if hidden != 0
            && let Some(heir) = family.only_child(hidden)
        {
            family.merge(host, hidden, heir);
            self.objects.get(hidden).end();
            self.give_object(hidden);
            alive = family.leave();
        }
        if !alive {
            self.end_family(family);
        }
        Ok(())
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    /// Hands everything of `hidden` down to its only child.
    fn merge(&self, host: &M, hidden: NodeId, heir: NodeId) {
        let object = self.object(hidden);
        let below = self.object(heir);
        let account = |object: &Object| self.engine().tables.account(object.account.get());
        account(below).inherit_reclaims(account(object));
        // What is left are leaves of which somebody below sees an entry.
        self.prune(hidden, 0, u64::MAX);
        let mut next = 0;
        while let Some((number, segment)) = self.directory(hidden).at_or_after(next) {
            self.directory(hidden).remove(number);
            self.inherit_segment(host, heir, number, segment);
            match number.checked_add(1) {
                Some(number) => next = number,
                None => break,
            }
        }
        self.disown(heir);
        self.replace(hidden, heir);
        let limit = below.parent_limit.get().min(object.parent_limit.get());
        below.parent_limit.set(limit);
        if below.parent.get() == 0 {
            self.drop_intervals(heir);
        }
    }

    /// Gives a segment of a hidden node, which is in no directory any more, to `heir`.
    fn inherit_segment(&self, host: &M, heir: NodeId, number: u32, segment: u32) {
        let shares = self.object(heir).kind() == Kind::Hidden;
        let Some(own) = self.directory(heir).find(number) else {
            self.directory(heir).insert(segment);
            self.change_account(segment, self.object(heir).account.get());
            if !shares {
                self.engine().tables.free_all_counts(segment);
            }
            return;
        };
        let tables = &self.engine().tables;
        for leaf in 0..LEAVES as u32 {
            let index = leaf * LEAF_PAGES;
            if tables.leaf_of(segment, index).is_none() {
                continue;
            }
            if tables.leaf_of(own, index).is_none() {
                self.inherit_leaf(host, segment, own, leaf);
                if !shares {
                    tables.free_counts(own, leaf);
                }
            } else {
                self.inherit_entries(host, segment, own, leaf);
                tables.free_leaf(segment, leaf);
            }
        }
        self.free_segment(segment);
    }

    /// Has what a segment holds counted for another account.
    fn change_account(&self, segment: u32, account: u32) {
        let (engine, entries) = (self.engine(), self.entries(segment));
        let held = [entries.committed(), entries.content()].map(i64::from);
        let slot = &engine.tables.segment(segment).account;
        engine.tables.account(slot.get()).change(-held[0], -held[1]);
        engine.tables.account(account).change(held[0], held[1]);
        slot.set(account);
    }

    /// Hangs a leaf into another segment.
    fn inherit_leaf(&self, host: &M, from: u32, to: u32, leaf: u32) {
        let engine = self.engine();
        // The counts of both segments follow (page list I4).
        for index in leaf * LEAF_PAGES..(leaf + 1) * LEAF_PAGES {
            self.entries(from)
                .recount(self.get((from, index)), Entry::Empty);
            self.entries(to)
                .recount(Entry::Empty, self.get((from, index)));
        }
        engine.tables.move_leaf(from, to, leaf);
        let target = self.entries(to);
        for index in leaf * LEAF_PAGES..(leaf + 1) * LEAF_PAGES {
            match target.get(index) {
                // Its owner is the leaf, and that is the same.
                Entry::Empty | Entry::Compressed(_) => {}
                entry => {
                    engine.follow(host, entry, (to, index), target.owner(index));
                    self.moved(host, entry, (from, index), (to, index));
                }
            }
        }
    }

    /// Moves the entries of one leaf to another, which has none at the same places.
    fn inherit_entries(&self, host: &M, from: u32, to: u32, leaf: u32) {
        for index in leaf * LEAF_PAGES..(leaf + 1) * LEAF_PAGES {
            if self.get((from, index)) != Entry::Empty {
                let shares = self.count((from, index));
                self.relocate(host, (from, index), (to, index));
                self.entries(to).set_count(index, shares);
            }
        }
    }
}
