//! A VMO's own page list, with its family's lock held.

use super::Places;
use crate::machine::memory::{Memory, Place};
use crate::pages::entry::Entry;
use crate::pages::segment::Word;
use crate::vm::vmo::VmoError;
use crate::vm::vmo::family::Family;
use crate::vm::vmo::lookup::{index, number};
use crate::vm::vmo::object::NodeId;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// The page list of `node` with this root: the one it has, or one that it is to have. Tables come from
/// those that are ready.
pub(in crate::vm::vmo) struct Own<'f, 'a, M: Memory, C: PageCodec, S: CompressedStorage> {
    pub(in crate::vm::vmo) family: &'f Family<'a, M, C, S>,
    pub(in crate::vm::vmo) host: &'f M,
    pub(in crate::vm::vmo) node: NodeId,
    pub(in crate::vm::vmo) root: &'f Word,
    /// Not 0: it may hold intervals.
    pub(in crate::vm::vmo) intervals: &'f Word,
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Places for Own<'_, '_, M, C, S> {
    fn find(&self, at: u64) -> Option<Place> {
        let segment = self.family.directory_at(self.root).find(number(at))?;
        let tables = &self.family.engine().tables;
        let leaf = tables.leaf_of(segment, index(at));
        leaf.map(|_| (segment, index(at)))
    }

    fn next(&self, from: u64) -> Option<(u64, Entry)> {
        let next = self.family.next_in(self.node, self.root, from, u64::MAX);
        next.map(|(at, found)| (at, found.entry))
    }

    fn make(&self, at: u64) -> Result<Place, VmoError> {
        let place = self.family.place_at(self.host, self.node, self.root, at);
        place.ok_or(VmoError::NoMemory)
    }

    fn get(&self, place: Place) -> Entry {
        self.family.get(place)
    }

    fn put(&self, place: Place, entry: Entry) {
        self.family.entries(place.0).set(place.1, entry);
    }

    fn free(&self, place: Place) {
        self.family.free(self.host, place, self.get(place));
    }

    fn prune(&self, positions: Range<u64>) {
        if !positions.is_empty() {
            self.family
                .prune_at(self.root, positions.start, positions.end);
        }
    }

    fn may_have_intervals(&self) -> bool {
        self.intervals.get() != 0
    }

    fn has_intervals(&self) {
        self.intervals.set(1);
    }
}
