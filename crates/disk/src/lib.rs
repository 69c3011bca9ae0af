//! A compressed RAM disk in ordinary memory of a process: its blocks are pages of a VMO.
//!
//! ```text
//!   Disk ─ volume() ─▶ Volume ─ read, write, trim ─▶ VMO ─▶ entries: page · compressed · same-filled · nothing
//!     │ ─ snapshot() ─▶ Volume (read-only) ──────────▶ VMO ──╯  shared until the disk is written
//!     ╰ scanner: pages that were not written for a while are compressed (`scanner.rs`)
//!   frames of process memory, one pool and one limit for pages and storage (`frames.rs`)
//! ```
//!
//! What a disk promises:
//!
//! * **A hard limit** ([`Options::limit_bytes`]): frames and tables never take more. A write for which nothing more can
//!   be compressed fails with [`IoError::NoSpace`]; what was stored stays, and can be read: reading takes no frame.
//! * **Thin**: what was never written, or was trimmed, or is zeros, takes nothing; a page that repeats one word takes
//!   its entry. Frames that are not needed go back to the kernel.
//! * **Never much larger than the data**: a page that does not compress stays as it is, with some 30 bytes of tables.
//! * **Checked**: a stored page has a checksum, which is verified each time that it is decompressed. One that is
//!   wrong fails that page alone ([`IoError::Damaged`]), until it is written or trimmed.
//! * **Snapshots** share all pages with the disk until they are written, compressed ones too.
//!
//! The engine's locks are of `parking_lot`. No codec runs under any lock, and no thread holds the locks of two VMOs;
//! debug builds of the engine check both. A thread that waits for a page which another restores or compresses lends
//! that one its priority (`waiters.rs`); the locks, held for less than a microsecond, do not.
//!
//! With a store behind it a disk is a [`Cache`] of that (`cache`): of a file, or of a write-back tier.
//!
//! What it deliberately does not have: a server (that is `coldpress-nbd`, and the command `coldpress disk` joins the
//! two); of a disk without a store, anything that lasts longer than the process.
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod backing;
mod bits;
mod cache;
mod codec;
mod compaction;
mod context;
#[cfg(test)]
mod damage_tests;
mod dictionaries;
mod disk;
mod error;
mod frames;
mod info;
mod io_counts;
mod lock;
mod machine;
mod mapping;
mod places;
#[cfg(test)]
mod priority_tests;
mod recompress;
mod scanner;
mod shared;
mod statistics;
mod storage_frames;
mod training;
mod volume;
mod waiters;
mod wake_up;

pub use backing::{Backing, BackingError, Zeroing};
pub use cache::{
    BackingFile, Cache, CacheOptions, CacheStatistics, OpenError, OpenMode, SEGMENT_BYTES,
    Shortage, TierDevice, TierFile, TierStore, Which, segments_for,
};
pub use disk::{Disk, LEAST_LIMIT_BYTES, Options};
pub use error::{CreateError, IoError, SnapshotError};
pub use info::ProcessTimes;
pub use recompress::Recompressed;
pub use statistics::Statistics;
pub use volume::{Extent, Volume};
