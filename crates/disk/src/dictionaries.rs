//! The dictionaries of recompression, which a disk's codec refers to from when they are made on.

use crate::mapping::Mapping;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The dictionaries of a disk.
#[derive(Default)]
pub(crate) struct Dictionaries {
    /// Held for all of a recompression: there is one at a time. Outermost.
    pub(crate) made: Mutex<Made>,
    /// Memory that they take.
    bytes: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Made {
    /// A dictionary each, by number.
    pub(crate) memory: Vec<Mapping>,
    /// Pages that had been compressed, ever, when the last one was made.
    pub(crate) compressed_before: u64,
}

impl Dictionaries {
    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// One more was made.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }
}
