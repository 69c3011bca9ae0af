//! Splice lists: what was taken out of a range of a page list, to be put into another.
//!
//! Positions keep their order and their distance: what is empty stays empty, intervals stay
//! intervals. A splice list is a page list itself, so it needs as little memory, and what waits in it
//! can be compressed like everything else.

use super::{List, POSITIONS, Places};
use crate::pages::entry::Entry;
use crate::vm::vmo::VmoError;
use core::ops::Range;

/// Entries on their way. Those that nobody took are freed with it.
pub struct Splice<P: Places> {
    list: List<P>,
    popped: u64,
    len: u64,
}

impl<P: Places> Splice<P> {
    /// A splice list without entries, on a page list that is empty.
    pub fn new(places: P) -> Self {
        let list = List(places);
        debug_assert!(list.is_empty());
        Self {
            list,
            popped: 0,
            len: 0,
        }
    }

    /// How many entries are left, empty ones too.
    pub fn len(&self) -> u64 {
        self.len - self.popped
    }

    /// Whether all have been taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an entry.
    pub fn append(&mut self, entry: Entry) -> Result<(), VmoError> {
        if entry != Entry::Empty {
            self.list.insert(self.len, entry)?;
        }
        self.len += 1;
        Ok(())
    }

    /// Takes the next entry out, be it empty. A page of an interval is a zero marker. `None`: that
    /// was all.
    pub fn pop(&mut self) -> Option<Entry> {
        if self.is_empty() {
            return None;
        }
        let at = self.popped;
        self.popped += 1;
        if self.list.interval_at(at).is_some() {
            // The interval's ends hold nothing, and stay until all are given back.
            return Some(Entry::Zero);
        }
        let Some(place) = self.list.0.find(at) else {
            return Some(Entry::Empty);
        };
        let entry = self.list.0.get(place);
        self.list.0.put(place, Entry::Empty);
        Some(entry)
    }
}

impl<P: Places> Drop for Splice<P> {
    fn drop(&mut self) {
        // Nothing reaches over the ends of the whole list, so no memory is needed.
        let freed = self.list.free_range(0..POSITIONS);
        debug_assert_eq!(freed, Ok(()));
    }
}

impl<P: Places> List<P> {
    /// Takes the entries of a range out and appends them to `into`, with the gaps between them.
    ///
    /// # Errors
    /// `NoMemory`: nothing was taken. `OutOfRange`: nor is there such a range.
    pub fn take(&self, range: Range<u64>, into: &mut Splice<P>) -> Result<(), VmoError> {
        let pages = range.end.checked_sub(range.start);
        let pages = pages.ok_or(VmoError::OutOfRange)?;
        if range.end > POSITIONS
            || into
                .len
                .checked_add(pages)
                .is_none_or(|len| len > POSITIONS)
        {
            return Err(VmoError::OutOfRange);
        }
        self.isolate(&range)?;
        let to = |at: u64| into.len + (at - range.start);
        // First room for all, then all: so it is all or nothing.
        let mut room = Ok(());
        self.each_place(&range, |at, _| {
            room = room.and_then(|()| into.list.0.make(to(at)).map(|_| ()));
        });
        if room.is_err() {
            into.list.0.prune(into.len..into.len + pages);
            return room;
        }
        self.each_place(&range, |at, from| {
            if let Entry::ZeroInterval(..) = self.0.get(from) {
                into.list.0.has_intervals();
            }
            let place = into.list.0.find(to(at)).expect("made");
            self.0.carry(from, &into.list.0, place);
        });
        self.0.prune(range);
        into.len += pages;
        Ok(())
    }
}
