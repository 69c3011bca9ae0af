//! Page lists as ordered, sparse lists: walking over huge ranges, taking parts out, and zero intervals.
//!
//! ```text
//!  [`List`]: what can be asked of a page list, and done to it
//!     │  stands on
//!  [`Places`]: where entries stand: look one up, find the next, make room for one
//!     ├ a VMO's own page list, with its family's lock held (`own.rs`)
//!     └ [`Alone`]: a page list outside of any VMO, whose entries mean what its user wants
//! ```
//!
//! A position is *inside* an interval if its entry is one of the interval's, or if it is empty and
//! the next entry after it is an `End`. So one look ahead tells, and none back is needed.
//!
//! Invariants:
//! * Z1 After a `Start` the next entry is an `End` of the same state; before an `End` the previous
//!   one is its `Start`.
//!
//! All that is done to intervals is made of two steps, neither of which changes what any page is:
//! *cutting* an interval in two between two pages, and *joining* two that touch and are in the same
//! state. So an operation that finds no memory for an entry leaves everything as it was, but for a cut.
//!
//! What it deliberately does not know: what an entry holds, who else sees it, locks.

mod alone;
mod cursor;
mod insert;
mod intervals;
pub(super) mod own;
mod runs;
mod splice;
mod walk;

pub use crate::pages::interval::{Bound, DirtyState};
pub use alone::Alone;
pub use cursor::Cursor;
pub use insert::Inserter;
pub use runs::Run;
pub use splice::Splice;
pub use walk::{Piece, Walk};

use super::VmoError;
use super::directory::Directory;
use super::lookup::{index, number};
use crate::machine::lock::HeldRanks;
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::pages::page_list::Entries;
use crate::{LEAF_PAGES, SEGMENT_PAGES, SegmentId};
use core::ops::Range;
use lock_api::RawMutex;

/// Positions that a page list has: 0 to this, exclusive. The number of a segment fits into 32 bits.
pub const POSITIONS: u64 = (1 << 32) * SEGMENT_PAGES as u64;

/// Where the entries of one page list stand, while nobody else changes them.
pub trait Places {
    /// Where the entry of a position stands, if there is a leaf for it.
    fn find(&self, at: u64) -> Option<Place>;

    /// The first entry from `from` on that is not empty, and its position.
    fn next(&self, from: u64) -> Option<(u64, Entry)>;

    /// Makes a place for the entry of a position below [`POSITIONS`]: tables may be taken for it.
    /// What is made stays until it is [pruned](Places::prune).
    fn make(&self, at: u64) -> Result<Place, VmoError>;

    /// The entry at a place.
    fn get(&self, place: Place) -> Entry;

    /// Writes the entry at a place. What stood there is not freed.
    fn put(&self, place: Place, entry: Entry);

    /// Frees what the entry at a place holds, and empties the place.
    fn free(&self, place: Place);

    /// Moves the entry at a place of this list to an empty one of another.
    fn carry(&self, from: Place, list: &Self, to: Place) {
        list.put(to, self.get(from));
        self.put(from, Entry::Empty);
    }

    /// Gives tables back that hold nothing, of those for these positions.
    fn prune(&self, positions: Range<u64>);

    /// Whether the list may hold zero intervals: `false` saves looking for them.
    fn may_have_intervals(&self) -> bool;

    /// The list holds zero intervals from now on.
    fn has_intervals(&self);
}

/// A page list.
pub struct List<P: Places>(pub P);

impl<P: Places> List<P> {
    /// The entry of a position.
    pub fn get(&self, at: u64) -> Entry {
        match at < POSITIONS {
            true => self
                .0
                .find(at)
                .map_or(Entry::Empty, |place| self.0.get(place)),
            false => Entry::Empty,
        }
    }

    /// Whether the list holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.next(0).is_none()
    }

    /// Whether anything is remembered of any of these positions, be it that they are zeros.
    pub fn any_in(&self, range: Range<u64>) -> bool {
        match self.0.next(range.start) {
            Some((at, _)) if at < range.end => true,
            Some((_, Entry::ZeroInterval(Bound::End, _))) => !range.is_empty(),
            _ => false,
        }
    }

    /// Stores an entry, which is no part of an interval, at a position that is empty or inside an
    /// interval: that is split around it.
    ///
    /// # Errors
    /// `BadState`: something else stands there. `OutOfRange`: there is no such position.
    /// `NoMemory`: no table for the entry, or for the parts of the interval.
    pub fn insert(&self, at: u64, entry: Entry) -> Result<(), VmoError> {
        if at >= POSITIONS {
            return Err(VmoError::OutOfRange);
        }
        let place = self.0.make(at)?;
        let free = matches!(self.0.get(place), Entry::Empty | Entry::ZeroInterval(..));
        if !free || matches!(entry, Entry::ZeroInterval(..)) {
            return Err(VmoError::BadState);
        }
        self.isolate(&(at..at + 1))?;
        self.0.put(place, entry);
        Ok(())
    }

    /// Takes the entry of a position out and gives it to the caller. Inside an interval it is a slot.
    pub fn remove(&self, at: u64) -> Result<Entry, VmoError> {
        let mut removed = Entry::Empty;
        self.remove_range(at..at.saturating_add(1), |_, entry| removed = entry)?;
        Ok(removed)
    }

    /// Takes all entries of a range out and gives them to the caller, in order. An interval that
    /// reaches beyond the range keeps its other part.
    pub fn remove_range(
        &self,
        range: Range<u64>,
        mut act: impl FnMut(u64, Entry),
    ) -> Result<(), VmoError> {
        self.isolate(&range)?;
        self.each_place(&range, |at, place| {
            let entry = self.0.get(place);
            self.0.put(place, Entry::Empty);
            act(at, entry);
        });
        self.0.prune(range);
        Ok(())
    }

    /// Frees all entries of a range. An interval that reaches beyond it keeps its other part.
    pub fn free_range(&self, range: Range<u64>) -> Result<(), VmoError> {
        self.isolate(&range)?;
        self.each_place(&range, |_, place| self.0.free(place));
        self.0.prune(range);
        Ok(())
    }

    /// Visits the places of the entries in a range; they may be emptied meanwhile.
    fn each_place(&self, range: &Range<u64>, mut act: impl FnMut(u64, Place)) {
        let mut next = range.start;
        while let Some((at, _)) = self.0.next(next)
            && at < range.end
        {
            let place = self.0.find(at).expect("the place of an entry");
            act(at, place);
            next = at + 1;
        }
    }
}

/// The first entry that is not empty, in `from..end`, where it stands and what it is.
pub(super) fn next_in<'a, R: RawMutex + HeldRanks + Sync + 'a>(
    directory: &Directory<'_, R>,
    entries: impl Fn(SegmentId) -> Entries<'a, R>,
    from: u64,
    end: u64,
) -> Option<(u64, Place, Entry)> {
    let (mut from, end) = (from, end.min(POSITIONS));
    while from < end {
        let (at, segment) = directory.at_or_after(number(from))?;
        let first = u64::from(at) * u64::from(SEGMENT_PAGES);
        if first > from {
            from = first;
            continue;
        }
        if let Some((index, entry)) = entries(segment).next(index(from)) {
            let at = first + u64::from(index);
            return (at < end).then_some((at, (segment, index), entry));
        }
        from = first + u64::from(SEGMENT_PAGES);
    }
    None
}

/// The number of the leaf of a position, counted through all segments.
fn leaf_of(at: u64) -> u64 {
    at / u64::from(LEAF_PAGES)
}
