//! A page list outside of any VMO: its entries mean what its user wants them to. On the same
//! segments, leaves and directory as those of VMOs.

use super::{POSITIONS, Places, next_in};
use crate::machine::lock::HeldRanks;
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::pages::page_list::Entries;
use crate::pages::segment::{LEAVES, Word};
use crate::pages::tables::{Growth, Tables};
use crate::vm::vmo::VmoError;
use crate::vm::vmo::directory::Directory;
use crate::vm::vmo::lookup::{index, number};
use crate::{LEAF_PAGES, SEGMENT_PAGES};
use coldpress_arena::ChunkSource;
use core::ops::Range;
use lock_api::RawMutex;

/// A page list with tables of its own. Whoever has it is alone with it: the locks in it, of kind
/// `R`, are not used.
pub struct Alone<R, M, F> {
    tables: Tables<R>,
    root: Word,
    intervals: Word,
    memory: M,
    freed: F,
}

impl<R: RawMutex + HeldRanks + Sync, M: ChunkSource, F: Fn(Entry)> Alone<R, M, F> {
    /// A page list without entries. Tables grow from `memory`; `freed` is told what is freed.
    pub fn new(memory: M, freed: F) -> Self {
        Self {
            tables: Tables::new(),
            root: Word::default(),
            intervals: Word::default(),
            memory,
            freed,
        }
    }

    /// Segments and leaves in use.
    pub fn tables_in_use(&self) -> (u32, u32) {
        let tables = self.tables.in_use();
        (tables.segments, tables.leaves)
    }

    /// Pages held by entries, and entries that remember anything but zeros, counted.
    pub fn committed_and_content(&self) -> (u32, u32) {
        let counted = self.directory().segments().map(|segment| {
            let entries = self.entries(segment);
            (entries.committed(), entries.content())
        });
        counted.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn directory(&self) -> Directory<'_, R> {
        Directory {
            tables: &self.tables,
            root: &self.root,
        }
    }

    fn entries(&self, segment: u32) -> Entries<'_, R> {
        Entries::new(&self.tables, segment)
    }
}

impl<R: RawMutex + HeldRanks + Sync, M: ChunkSource, F: Fn(Entry)> Places for Alone<R, M, F> {
    fn find(&self, at: u64) -> Option<Place> {
        let segment = self.directory().find(number(at))?;
        let leaf = self.tables.leaf_of(segment, index(at));
        leaf.map(|_| (segment, index(at)))
    }

    fn next(&self, from: u64) -> Option<(u64, Entry)> {
        let entries = |segment| self.entries(segment);
        let next = next_in(&self.directory(), entries, from, POSITIONS);
        next.map(|(at, _, entry)| (at, entry))
    }

    fn make(&self, at: u64) -> Result<Place, VmoError> {
        let tables = &self.tables;
        let room =
            tables.reserve_segments(&self.memory, 1) && tables.reserve_leaves(&self.memory, 1);
        if !room && self.find(at).is_none() {
            return Err(VmoError::NoMemory);
        }
        let segment = match self.directory().find(number(at)) {
            Some(segment) => segment,
            None => {
                let segment = tables.take_segment(None, number(at));
                let segment = segment.ok_or(VmoError::NoMemory)?;
                self.directory().insert(segment);
                segment
            }
        };
        match tables.ensure_leaf(&self.memory, segment, index(at), Growth::Forbidden) {
            true => Ok((segment, index(at))),
            false => Err(VmoError::NoMemory),
        }
    }

    fn get(&self, place: Place) -> Entry {
        self.entries(place.0).get(place.1)
    }

    fn put(&self, place: Place, entry: Entry) {
        self.entries(place.0).set(place.1, entry);
    }

    fn free(&self, place: Place) {
        (self.freed)(self.get(place));
        self.put(place, Entry::Empty);
    }

    fn prune(&self, positions: Range<u64>) {
        let mut next = number(positions.start.min(POSITIONS - 1));
        while let Some((at, id)) = self.directory().at_or_after(next) {
            let first = u64::from(at) * u64::from(SEGMENT_PAGES);
            if first >= positions.end {
                return;
            }
            let is_empty = |leaf: &u32| self.entries(id).live(leaf * LEAF_PAGES) == 0;
            for leaf in (0..LEAVES as u32).filter(is_empty) {
                self.tables.free_leaf(id, leaf);
            }
            let segment = self.tables.segment(id);
            if segment.leaf_numbers().next().is_none() {
                self.directory().remove(at);
                segment.retire();
                self.tables.give_segment(id);
            }
            match at.checked_add(1) {
                Some(number) => next = number,
                None => return,
            }
        }
    }

    fn may_have_intervals(&self) -> bool {
        self.intervals.get() != 0
    }

    fn has_intervals(&self) {
        self.intervals.set(1);
    }
}
