//! How long pages stay compressed: RFC-0219 `pages_decompressed_within_log_time`.
//!
//! ```text
//!  bucket   0     1     2     3     4      5      6       7       8
//!  units   <1   1..2  2..4  4..8  8..16  16..32  32..64  64..128  128 and more
//! ```
//!
//! The RFC has eight buckets and says that the ninth "can be inferred by subtracting from
//! `total_page_decompressions`". So it must not be counted in the eighth, as Zircon does. Here it
//! is counted by itself, and the total *is* the sum of the nine ([`Residency::total`]): whatever
//! happens while they are read, subtracting gives exactly what was read of the ninth.
//!
//! * Counted is who leaves storage by being decompressed and put in place. Who leaves it otherwise
//!   (the VMO was destroyed, the content was in doubt, the page was dropped while it was being
//!   decompressed) is an eviction in the RFC's sense, and has no bucket.
//! * The time is the host's clock between storing and restoring, to one millisecond, modulo
//!   2^31 ms: a page that is wanted after 24.8 days counts as young.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets that are counted: the RFC's eight, and what is longer.
pub const BUCKETS: usize = 9;

/// Buckets that the RFC reports.
pub const REPORTED: usize = 8;

/// The unit of the buckets, in nanoseconds: a second.
pub const UNIT_NS: u64 = 1_000_000_000;

/// What the figures of the buckets are called.
pub(crate) const NAMES: [(&str, &str); BUCKETS] = [
    (
        "decompressed_within_1s",
        "Pages decompressed after less than a second.",
    ),
    (
        "decompressed_within_2s",
        "Pages decompressed after 1 to 2 s.",
    ),
    (
        "decompressed_within_4s",
        "Pages decompressed after 2 to 4 s.",
    ),
    (
        "decompressed_within_8s",
        "Pages decompressed after 4 to 8 s.",
    ),
    (
        "decompressed_within_16s",
        "Pages decompressed after 8 to 16 s.",
    ),
    (
        "decompressed_within_32s",
        "Pages decompressed after 16 to 32 s.",
    ),
    (
        "decompressed_within_64s",
        "Pages decompressed after 32 to 64 s.",
    ),
    (
        "decompressed_within_128s",
        "Pages decompressed after 64 to 128 s.",
    ),
    (
        "decompressed_later",
        "Pages decompressed after 128 s or more.",
    ),
];

/// A reading of the nine buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency(pub [u64; BUCKETS]);

impl Residency {
    /// Reads the buckets.
    pub fn read(buckets: &[AtomicU64; BUCKETS]) -> Self {
        Self(core::array::from_fn(|n| buckets[n].load(Relaxed)))
    }

    /// All pages decompressed.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The buckets that the RFC reports.
    pub fn reported(&self) -> [u64; REPORTED] {
        core::array::from_fn(|n| self.0[n])
    }
}
