//! What happens to single entries: freed, moved down, seen by one VMO less.

use super::family::Family;
use super::lookup::Found;
use crate::machine::memory::{Memory, Place};
use crate::pages::entry::Entry;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    /// Frees what stands at a place, whoever sees it.
    pub(super) fn free(&self, host: &M, place: Place, entry: Entry) {
        if let Entry::Page(_) = entry {
            host.drop_page(place);
        }
        self.engine().forget(host, entry);
        let entries = self.entries(place.0);
        entries.set_count(place.1, 0);
        entries.set(place.1, Entry::Empty);
        if let Entry::Request(_) = entry {
            // Nothing will be installed there: who waits must look again.
            host.wake(place.0, place.1);
        }
    }

    /// One VMO sees an entry of a hidden node no more: it is freed where that was the last.
    pub(super) fn let_go(&self, host: &M, found: Found) {
        let entries = self.entries(found.place.0);
        match entries.count(found.place.1) {
            0 => self.free(host, found.place, found.entry),
            shares => {
                entries.set_count(found.place.1, shares - 1);
                if let Entry::Page(_) = found.entry {
                    // Some mapping that showed it must show something else now.
                    host.unmap(found.place);
                }
            }
        }
    }

    /// Moves an entry, as it is and without its counter, to an empty place that has a leaf.
    pub(super) fn relocate(&self, host: &M, from: Place, to: Place) {
        let (source, target) = (self.entries(from.0), self.entries(to.0));
        let entry = source.get(from.1);
        debug_assert_eq!(target.get(to.1), Entry::Empty);
        source.set_count(from.1, 0);
        source.set(from.1, Entry::Empty);
        self.engine().follow(host, entry, to, target.owner(to.1));
        target.set(to.1, entry);
        self.moved(host, entry, from, to);
    }

    /// An entry that stood at `from` stands at `to`: what the machine has to know of it.
    pub(super) fn moved(&self, host: &M, entry: Entry, from: Place, to: Place) {
        match entry {
            Entry::Page(record) => {
                host.rename(from, to);
                let queue = self.entries(to.0).queue();
                if self.entries(from.0).queue() != queue {
                    let engine = self.engine();
                    engine.queues.lock().move_to(record, queue);
                }
            }
            // Its worker will install at the new place: who waits at the old one must look again.
            Entry::Request(_) => host.wake(from.0, from.1),
            _ => {}
        }
    }

    /// Frees all entries of `node` itself in `from..end`, and the tables that held them.
    pub(super) fn free_own(&self, host: &M, node: u32, from: u64, end: u64) {
        self.free_entries(host, node, from, end);
        self.prune(node, from, end);
    }

    /// Frees all entries of `node` itself in `from..end`, over whose bounds no interval reaches.
    pub(super) fn free_entries(&self, host: &M, node: u32, from: u64, end: u64) {
        self.free_intervals(node, from, end);
        let mut next = from;
        while let Some((at, found)) = self.next_own(node, next, end) {
            self.free(host, found.place, found.entry);
            next = at + 1;
        }
    }

    /// `node` sees the entries above it in `from..end` no more. Its own entries still hide what it
    /// did not see.
    pub(super) fn let_go_inherited(&self, host: &M, node: u32, from: u64, end: u64) {
        let mut next = from;
        while let Some((at, found)) = self.next_inherited(node, next, end) {
            self.let_go(host, found);
            next = at + 1;
        }
    }
}
