//! What a storage holds, counted as it changes.
//!
//! Invariants:
//! * N1 `frames`, `objects` and `payload_bytes` are the sums over all frames held. Every storage
//!   keeps it, and its `check_invariants` counts anew.
#![forbid(unsafe_code)]

use crate::compressed_storage::Usage;
use crate::frame::FRAME_BYTES;

/// Counts of one storage (N1).
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    pub(crate) frames: usize,
    pub(crate) objects: usize,
    /// Sum of the objects' lengths.
    pub(crate) payload_bytes: usize,
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Self {
            frames: 0,
            objects: 0,
            payload_bytes: 0,
        }
    }

    /// An object of `len` bytes is stored.
    pub(crate) fn store(&mut self, len: usize) {
        self.objects += 1;
        self.payload_bytes += len;
    }

    /// An object of `len` bytes is stored no longer.
    pub(crate) fn free(&mut self, len: usize) {
        self.objects -= 1;
        self.payload_bytes -= len;
    }

    /// The counts as usage, with so many bytes of tables.
    pub(crate) fn usage(self, metadata_bytes: usize) -> Usage {
        let storage_bytes = self.frames * FRAME_BYTES;
        Usage {
            storage_bytes,
            payload_bytes: self.payload_bytes,
            fragmentation_bytes: storage_bytes - self.payload_bytes,
            metadata_bytes,
            objects: self.objects,
        }
    }
}
