//! What a cache writes back to.

use std::sync::Arc;

/// Why a backing store refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackingError {
    /// Reading or writing failed, or ended early.
    #[error("reading or writing the backing store failed")]
    Io,
    /// There is no room for what was written.
    #[error("no space is left on the backing store")]
    NoSpace,
}

/// What may become of the space of a range that is to read as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroing {
    /// It may be given up.
    MayPunch,
    /// It stays with the range.
    KeepAllocated,
}

/// The pages behind a cache: a file, a block device, a write-back tier.
///
/// All offsets and lengths are multiples of a page, and lie within [`size_bytes`](Backing::size_bytes). Methods are
/// called by several threads at once, but never two of them for one page.
pub trait Backing: Send + Sync {
    /// Its size: a multiple of 4096.
    fn size_bytes(&self) -> u64;

    /// Fills the whole buffer.
    ///
    /// # Errors
    /// It cannot be filled. Its content is not used.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackingError>;

    /// Writes all of it.
    ///
    /// # Errors
    /// It was not written, or not all of it. The range may hold anything; the cache still has the pages.
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackingError>;

    /// Has the range read as zeros; `zeroing`: what may become of its space.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn zero(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), BackingError>;

    /// Whatever was written or zeroed before outlives the machine's end.
    ///
    /// # Errors
    /// Some of it may not, whatever the next call returns.
    fn sync(&self) -> Result<(), BackingError>;

    /// How far from `offset` on the store is alike, `length` bytes at most, a page at least; and whether it is a hole.
    fn extent(&self, offset: u64, length: u64) -> (u64, bool);

    /// Whether its content outlives the cache. If not, a flush has nothing to do, and pages of zeros are not worth
    /// holding.
    fn outlives(&self) -> bool {
        true
    }

    /// The cache has newer pages than the store, which may forget its own.
    fn overwritten(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Bytes of memory that it takes, which count as the cache's.
    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// What is shared is what it is.
impl<B: Backing + ?Sized> Backing for Arc<B> {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackingError> {
        (**self).read(offset, buffer)
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        (**self).write(offset, data)
    }
    fn zero(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), BackingError> {
        (**self).zero(offset, length, zeroing)
    }
    fn sync(&self) -> Result<(), BackingError> {
        (**self).sync()
    }
    fn extent(&self, offset: u64, length: u64) -> (u64, bool) {
        (**self).extent(offset, length)
    }
    fn outlives(&self) -> bool {
        (**self).outlives()
    }
    fn overwritten(&self, offset: u64, length: u64) {
        (**self).overwritten(offset, length);
    }
    fn memory_bytes(&self) -> u64 {
        (**self).memory_bytes()
    }
}
