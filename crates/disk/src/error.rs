//! Why something was refused.

use crate::backing::BackingError;
use coldpress_engine::vmo::VmoError;

/// Why a disk could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The size is 0, no multiple of 4096, or more than 16 TiB.
    #[error("a disk has a size of 4096 bytes to 16 TiB, a multiple of 4096")]
    Size,
    /// The limit is below [`LEAST_LIMIT_BYTES`](crate::LEAST_LIMIT_BYTES).
    #[error("a memory limit is 4 MiB at least")]
    Limit,
    /// There is no memory.
    #[error("no memory")]
    NoMemory,
}

/// Why reading or writing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// The range is not inside the disk.
    #[error("the range is not inside the disk")]
    OutOfRange,
    /// It is a snapshot, or a disk that was made so.
    #[error("it is read-only")]
    ReadOnly,
    /// Memory is at its limit, and nothing more can be compressed. What was stored is as it was, but for what this
    /// write had written before it came to its end.
    #[error("the memory limit is reached, and nothing more can be compressed")]
    NoSpace,
    /// The checksum of a stored page is wrong. Other pages are as they were; it can be written, or trimmed.
    #[error("a stored page is damaged")]
    Damaged,
    /// The snapshot was dropped.
    #[error("the snapshot was dropped")]
    Gone,
    /// The store behind a cache failed. What the cache holds, it still holds.
    #[error("{0}")]
    Backing(BackingError),
}

impl IoError {
    /// What an error of a VMO means for a disk; making room was tried.
    pub(crate) fn of(error: VmoError) -> Self {
        match error {
            VmoError::NoMemory => Self::NoSpace,
            VmoError::NoSuchVmo => Self::Gone,
            VmoError::OutOfRange => Self::OutOfRange,
            // A disk has no pager, pins nothing, and its pages are aligned.
            _ => Self::Damaged,
        }
    }
}

/// Why a snapshot was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There is one of the name.
    #[error("there is a snapshot called {0} already")]
    Exists(String),
    /// There is none of the name.
    #[error("there is no snapshot called {0}")]
    Unknown(String),
    /// There is no memory for its tables, or there are some 65,000 already.
    #[error("there is no memory for the snapshot's tables, or there are too many snapshots")]
    NoRoom,
}
