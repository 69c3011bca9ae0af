//! A page list outside of any VMO: its entries mean what its user wants them to. On the same
//! segments, leaves and directory as those of VMOs.

use super::{POSITIONS, Places, next_in};
use crate::entry::Entry;
use crate::memory::Place;
use crate::page_list::Entries;
use crate::segment::{Counts, Leaf, Segment, Word};
use crate::vmo::VmoError;
use crate::vmo::directory::Directory;
use crate::vmo::lookup::{index, number};
use crate::{LEAF_PAGES, SEGMENT_PAGES};
use coldpress_arena::{ChunkSource, Pool};
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};
use lock_api::RawMutex;

/// A page list with tables of its own. Whoever has it is alone with it: the locks in it, of kind
/// `R`, are not used.
pub struct Alone<R, M, F> {
    segments: Pool<Segment<R>>,
    leaves: Pool<Leaf>,
    counts: Pool<Counts>,
    root: Word,
    intervals: Word,
    memory: M,
    freed: F,
}

impl<R: RawMutex + Sync, M: ChunkSource, F: Fn(Entry)> Alone<R, M, F> {
    /// A page list without entries. Tables grow from `memory`; `freed` is told what is freed.
    pub fn new(memory: M, freed: F) -> Self {
        Self {
            segments: Pool::new(),
            leaves: Pool::new(),
            counts: Pool::new(),
            root: Word::default(),
            intervals: Word::default(),
            memory,
            freed,
        }
    }

    /// Segments and leaves in use.
    pub fn tables_in_use(&self) -> (u32, u32) {
        (self.segments.in_use(), self.leaves.in_use())
    }

    /// Pages held by entries, and entries that remember anything but zeros, counted.
    pub fn committed_and_content(&self) -> (u32, u32) {
        let (mut pages, mut next) = ((0, 0), 0);
        while let Some((at, segment)) = self.directory().at_or_after(next) {
            let entries = self.entries(segment);
            pages = (pages.0 + entries.committed(), pages.1 + entries.content());
            match at.checked_add(1) {
                Some(number) => next = number,
                None => break,
            }
        }
        pages
    }

    fn directory(&self) -> Directory<'_, R> {
        Directory {
            segments: &self.segments,
            root: &self.root,
        }
    }

    fn entries(&self, segment: u32) -> Entries<'_, R> {
        Entries::new(self.segments.get(segment), &self.leaves, &self.counts)
    }
}

impl<R: RawMutex + Sync, M: ChunkSource, F: Fn(Entry)> Places for Alone<R, M, F> {
    fn find(&self, at: u64) -> Option<Place> {
        let segment = self.directory().find(number(at))?;
        let leaf = self.segments.get(segment).leaf_number(index(at));
        (leaf != 0).then_some((segment, index(at)))
    }

    fn next(&self, from: u64) -> Option<(u64, Entry)> {
        let entries = |segment| self.entries(segment);
        let next = next_in(&self.directory(), entries, from, POSITIONS);
        next.map(|(at, _, entry)| (at, entry))
    }

    fn make(&self, at: u64) -> Result<Place, VmoError> {
        let room = self.segments.reserve(&self.memory, 1) && self.leaves.reserve(&self.memory, 1);
        if !room && self.find(at).is_none() {
            return Err(VmoError::NoMemory);
        }
        let segment = match self.directory().find(number(at)) {
            Some(segment) => segment,
            None => {
                let segment = self.segments.take().ok_or(VmoError::NoMemory)?;
                self.segments.get(segment).clear(segment, number(at));
                self.directory().insert(segment);
                segment
            }
        };
        let slot = &self.segments.get(segment).leaves[(index(at) / LEAF_PAGES) as usize];
        if slot.load(Relaxed) == 0 {
            let leaf = self.leaves.take().ok_or(VmoError::NoMemory)?;
            let home = self.leaves.get(leaf);
            home.set_home(segment, index(at) / LEAF_PAGES);
            slot.store(leaf, Release);
        }
        Ok((segment, index(at)))
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
            let segment = self.segments.get(id);
            let mut kept = false;
            for (n, slot) in segment.leaves.iter().enumerate() {
                let leaf = slot.load(Relaxed);
                if leaf != 0 && self.entries(id).live(n as u32 * LEAF_PAGES) == 0 {
                    slot.store(0, Relaxed);
                    self.leaves.get(leaf).orphan();
                    self.leaves.give(leaf);
                } else {
                    kept |= leaf != 0;
                }
            }
            if !kept {
                self.directory().remove(at);
                segment.retire();
                self.segments.give(id);
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
