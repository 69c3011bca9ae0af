//! Inserting many entries: those of one leaf look it up once, in whatever order they come.

use super::{List, Places, leaf_of};
use crate::LEAF_PAGES;
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::vm::vmo::VmoError;

/// Inserts entries one after the other, and remembers where the last one went.
pub struct Inserter<'a, P: Places> {
    list: &'a List<P>,
    /// The leaf of the last entry, and its first place.
    last: Option<(u64, Place)>,
}

impl<P: Places> List<P> {
    /// An inserter. Nothing else gives tables of the list back while it lives.
    pub fn inserter(&mut self) -> Inserter<'_, P> {
        Inserter {
            list: self,
            last: None,
        }
    }
}

impl<P: Places> Inserter<'_, P> {
    /// Inserts an entry, as [`List::insert`] does.
    pub fn insert(&mut self, at: u64, entry: Entry) -> Result<(), VmoError> {
        let offset = (at % u64::from(LEAF_PAGES)) as u32;
        let leaf = leaf_of(at);
        match self.last {
            Some((last, (segment, first))) if last == leaf && !self.list.0.may_have_intervals() => {
                let place = (segment, first + offset);
                if self.list.0.get(place) != Entry::Empty
                    || matches!(entry, Entry::ZeroInterval(..))
                {
                    return Err(VmoError::BadState);
                }
                self.list.0.put(place, entry);
            }
            _ => {
                self.list.insert(at, entry)?;
                let place = self.list.0.find(at);
                self.last = place.map(|(segment, index)| (leaf, (segment, index - offset)));
            }
        }
        Ok(())
    }
}
