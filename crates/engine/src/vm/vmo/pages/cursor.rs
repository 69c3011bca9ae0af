//! A cursor: entry after entry, empty ones too, as far as there are leaves.

use super::{List, Places};
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::{LEAF_PAGES, PageIndex};

/// Steps from one position to the next without looking it up, and ends where no leaf is.
pub struct Cursor<'a, P: Places> {
    list: &'a List<P>,
    at: u64,
    place: Option<Place>,
}

impl<P: Places> List<P> {
    /// A cursor whose first position is `at`.
    pub fn cursor(&self, at: u64) -> Cursor<'_, P> {
        Cursor {
            list: self,
            at,
            place: (at < super::POSITIONS).then(|| self.0.find(at)).flatten(),
        }
    }
}

impl<P: Places> Iterator for Cursor<'_, P> {
    type Item = (u64, Entry);

    fn next(&mut self) -> Option<(u64, Entry)> {
        let (segment, index) = self.place?;
        let current = (self.at, self.list.0.get((segment, index)));
        self.at += 1;
        let next: PageIndex = index + 1;
        self.place = match next.is_multiple_of(LEAF_PAGES) {
            false => Some((segment, next)),
            true if self.at < super::POSITIONS => self.list.0.find(self.at),
            true => None,
        };
        Some(current)
    }
}
