//! The tables of press-dense, which a disk makes once and its codec refers to from then on.

use crate::mapping::Mapping;
use parking_lot::Mutex;

/// The tables, once they are made.
#[derive(Default)]
pub(crate) struct Tables {
    /// Held for all of a recompression: there is one at a time. Outermost.
    pub(crate) made: Mutex<Option<Mapping>>,
}
