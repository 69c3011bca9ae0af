//! What a cache writes back to: pages that outlive it.

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

/// Pages that outlive a cache: a file, a block device.
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

    /// Has the range read as zeros. With `may_punch` its space may be given up.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<(), BackingError>;

    /// Whatever was written or zeroed before outlives the machine's end.
    ///
    /// # Errors
    /// Some of it may not, whatever the next call returns.
    fn sync(&self) -> Result<(), BackingError>;

    /// How far from `offset` on the store is alike, `length` bytes at most, a page at least; and whether it is a hole.
    fn extent(&self, offset: u64, length: u64) -> (u64, bool);
}
