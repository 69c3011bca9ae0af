//! Looking things up in a family: one entry, the next one, the one that a VMO sees.

use super::directory::Directory;
use super::family::Family;
use super::object::NodeId;
use super::pages;
use crate::machine::memory::{Memory, Place};
use crate::pages::entry::Entry;
use crate::pages::segment::Word;
use crate::pages::tables::Growth;
use crate::{LEAF_PAGES, SEGMENT_PAGES};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// An entry, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) node: NodeId,
    pub(super) place: Place,
    pub(super) entry: Entry,
}

/// The number of the segment of a position.
pub(super) fn number(at: u64) -> u32 {
    (at / u64::from(SEGMENT_PAGES)) as u32
}

/// The index of a position in its segment.
pub(super) fn index(at: u64) -> u32 {
    (at % u64::from(SEGMENT_PAGES)) as u32
}

impl<'a, M: Memory, C: PageCodec, S: CompressedStorage> Family<'a, M, C, S> {
    pub(super) fn directory(&self, node: NodeId) -> Directory<'a, M::RawLock> {
        self.directory_at(&self.object(node).root)
    }

    pub(super) fn directory_at<'r>(&self, root: &'r Word) -> Directory<'r, M::RawLock>
    where
        'a: 'r,
    {
        Directory {
            tables: &self.engine().tables,
            root,
        }
    }

    /// Where the entry of `node` at a position stands, if there is a segment for it.
    pub(super) fn place(&self, node: NodeId, at: u64) -> Option<Place> {
        let segment = self.directory(node).find(number(at))?;
        Some((segment, index(at)))
    }

    /// The entry at a place.
    pub(super) fn get(&self, place: Place) -> Entry {
        self.entries(place.0).get(place.1)
    }

    /// The counter of the entry at a place.
    pub(super) fn count(&self, place: Place) -> u32 {
        self.entries(place.0).count(place.1)
    }

    /// The entry of `node` itself at a position; parts of intervals are none.
    pub(super) fn own(&self, node: NodeId, at: u64) -> Option<Found> {
        let place = self.place(node, at)?;
        match self.get(place) {
            Entry::Empty | Entry::ZeroInterval(..) => None,
            entry => Some(Found { node, place, entry }),
        }
    }

    /// The first entry of `node` itself, but for parts of intervals, in `from..end`.
    pub(super) fn next_own(&self, node: NodeId, from: u64, end: u64) -> Option<(u64, Found)> {
        let mut from = from;
        loop {
            let (at, found) = self.next_in(node, &self.object(node).root, from, end)?;
            match found.entry {
                Entry::ZeroInterval(..) => from = at + 1,
                _ => return Some((at, found)),
            }
        }
    }

    /// The first entry that is not empty, in `from..end`, of the page list with this root, which is
    /// that of `node`.
    pub(super) fn next_in(
        &self,
        node: NodeId,
        root: &Word,
        from: u64,
        end: u64,
    ) -> Option<(u64, Found)> {
        let directory = self.directory_at(root);
        let entries = |segment| self.entries(segment);
        let (at, place, entry) = pages::next_in(&directory, entries, from, end)?;
        Some((at, Found { node, place, entry }))
    }

    /// What `node` sees at a position: its own entry, or the nearest above.
    pub(super) fn find(&self, node: NodeId, at: u64) -> Option<Found> {
        self.own(node, at).or_else(|| self.inherited(node, at))
    }

    /// What `node` sees at a position of another, where it has no entry itself.
    pub(super) fn inherited(&self, node: NodeId, at: u64) -> Option<Found> {
        match self.interval_at(node, at) {
            Some(_) => None,
            None => self.find_above(node, at),
        }
    }

    /// What `node` would see at a position if it had no entry there itself.
    pub(super) fn find_above(&self, node: NodeId, at: u64) -> Option<Found> {
        let mut object = self.object(node);
        while object.parent.get() != 0 && at < object.parent_limit.get() {
            let parent = object.parent.get();
            if let Some(found) = self.own(parent, at) {
                return Some(found);
            }
            object = self.object(parent);
        }
        None
    }

    /// The first position in `from..end` at which `node` sees an entry of another, and that entry.
    pub(super) fn next_inherited(&self, node: NodeId, from: u64, end: u64) -> Option<(u64, Found)> {
        let mut from = from;
        loop {
            // The first position at which anybody above has one; of several, the nearest.
            let (mut object, mut end, mut first) = (self.object(node), end, None);
            while object.parent.get() != 0 {
                end = end.min(object.parent_limit.get());
                if let Some((at, found)) = self.next_own(object.parent.get(), from, end) {
                    first = Some((at, found));
                    end = at;
                }
                object = self.object(object.parent.get());
            }
            let (at, found) = first?;
            from = match self.interval_at(node, at) {
                Some(last) => last + 1,
                None if self.own(node, at).is_some() => at + 1,
                None => return Some((at, found)),
            };
        }
    }

    /// The first position in `from..end` at which `node` sees an entry, and that entry.
    pub(super) fn next_seen(&self, node: NodeId, from: u64, end: u64) -> Option<(u64, Found)> {
        let own = self.next_own(node, from, end);
        let end = own.map_or(end, |(at, _)| at);
        self.next_inherited(node, from, end).or(own)
    }

    /// Makes a place for an entry of `node` from the tables that are ready. `None`: none is. Inside an
    /// interval it is a slot, which hides what is above until something is put there.
    pub(super) fn make_place(&self, host: &M, node: NodeId, at: u64) -> Option<Place> {
        let place = self.place_at(host, node, &self.object(node).root, at)?;
        let opened = self.list(host, node).isolate(&(at..at + 1));
        opened.is_ok().then_some(place)
    }

    /// Makes a place for an entry of the page list of `node` with this root.
    pub(super) fn place_at(&self, host: &M, node: NodeId, root: &Word, at: u64) -> Option<Place> {
        let directory = self.directory_at(root);
        let segment = match directory.find(number(at)) {
            Some(segment) => segment,
            None => {
                let segment = self
                    .engine()
                    .tables
                    .take_segment(Some(self.id()), number(at))?;
                let sensitive = self.object(node).marks.get() > 0;
                let new = self.engine().tables.segment(segment);
                new.latency_sensitive.set(sensitive.into());
                new.account.set(self.object(node).account.get());
                new.pager_backed.set(self.object(node).pager_backed.get());
                directory.insert(segment);
                segment
            }
        };
        let ready = self
            .engine()
            .tables
            .ensure_leaf(host, segment, index(at), Growth::Forbidden);
        ready.then_some((segment, index(at)))
    }

    /// Gives leaves and segments of `node` back that hold nothing, of those in `from..end`.
    pub(super) fn prune(&self, node: NodeId, from: u64, end: u64) {
        self.prune_at(&self.object(node).root, from, end);
    }

    /// The same for the page list with this root.
    pub(super) fn prune_at(&self, root: &Word, from: u64, end: u64) {
        let directory = self.directory_at(root);
        let mut next = number(from);
        while let Some((at, id)) = directory.at_or_after(next) {
            let first = u64::from(at) * u64::from(SEGMENT_PAGES);
            if first >= end {
                return;
            }
            let last = end.min(first + u64::from(SEGMENT_PAGES)) - 1;
            let leaves = index(from.max(first)) / LEAF_PAGES..=index(last) / LEAF_PAGES;
            leaves.for_each(|leaf| self.prune_leaf(id, leaf));
            let segment = self.engine().tables.segment(id);
            if segment.leaf_numbers().next().is_none() {
                directory.remove(at);
                self.free_segment(id);
            }
            match at.checked_add(1) {
                Some(number) => next = number,
                None => return,
            }
        }
    }

    fn prune_leaf(&self, segment: u32, leaf: u32) {
        if self.entries(segment).live(leaf * LEAF_PAGES) == 0 {
            self.engine().tables.free_leaf(segment, leaf);
        }
    }

    /// Gives a segment without leaves back, which is in no directory.
    pub(super) fn free_segment(&self, id: u32) {
        let tables = &self.engine().tables;
        tables.segment(id).retire();
        tables.give_segment(id);
    }
}
