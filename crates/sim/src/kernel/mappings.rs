//! Mappings: which page each of the addresses shows, and whether it may be written there.

use coldpress_engine::Place;
use std::cell::Cell;

/// The number of an address.
pub type Address = usize;

/// Addresses of all programs.
pub const ADDRESSES: usize = 64;

/// Page table entries of all programs.
pub struct Mappings(Vec<Cell<Option<(Place, bool)>>>);

impl Mappings {
    /// Nothing is mapped.
    pub fn new() -> Self {
        Self((0..ADDRESSES).map(|_| Cell::new(None)).collect())
    }

    /// Shows a page at an address.
    pub fn map(&self, address: Address, place: Place, writable: bool) {
        self.0[address].set(Some((place, writable)));
    }

    /// Shows nothing there any more.
    pub fn clear(&self, address: Address) {
        self.0[address].set(None);
    }

    /// What is shown there.
    pub fn get(&self, address: Address) -> Option<(Place, bool)> {
        self.0[address].get()
    }

    /// Takes a page from every mapping.
    pub fn unmap(&self, place: Place) {
        for cell in &self.0 {
            if cell.get().is_some_and(|(shown, _)| shown == place) {
                cell.set(None);
            }
        }
    }

    /// Takes the right to write a page from every mapping.
    pub fn protect(&self, place: Place) {
        for cell in &self.0 {
            if cell.get().is_some_and(|(shown, _)| shown == place) {
                cell.set(Some((place, false)));
            }
        }
    }
}
