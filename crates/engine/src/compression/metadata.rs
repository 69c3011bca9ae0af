//! What the engine's own tables take, by kind.
//!
//! | for | bytes |
//! |---|---|
//! | a page of a page list, whatever it holds | 8, and 0.5 for its leaf and segment |
//! | a compressed page | the [header](crate::HEADER_BYTES) of what is stored (checksum, time, owner), and what the storage needs |
//! | a page of a snapshot | 2, how many share it, and 0.1 |
//! | a page that was in place at the busiest time | a record of 16: RFC-0219's `vm_page_t` |
//!
//! The record goes back when its page is compressed. As many stay in the table as there are pages that
//! may come back, so that no fault has to find memory for one.

/// Bytes of tables that have been touched; tables do not shrink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Segments and leaves of page lists, with all entries.
    pub page_lists: usize,
    /// How often pages are shared or pinned.
    pub counters: usize,
    /// Records of pages in place.
    pub records: usize,
    /// Usage by VMO.
    pub accounts: usize,
    /// What the storage keeps beside its frames.
    pub storage: usize,
}

impl Metadata {
    /// All of it.
    pub fn total(&self) -> usize {
        self.page_lists + self.counters + self.records + self.accounts + self.storage
    }
}
