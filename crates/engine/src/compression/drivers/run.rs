//! Pages that leave together.

use crate::{LEAF_PAGES, PageIndex};

/// A run that is to be taken.
pub(crate) struct Run {
    pub(crate) first: PageIndex,
    /// Bit n: page `first + n`.
    pub(crate) wanted: u64,
    /// Bit n: page n of the leaf, from the first to the last that is wanted.
    pub(crate) claimed: u64,
    pub(crate) records: [u32; LEAF_PAGES as usize],
}
