//! What is served: an [`Export`] is one disk, [`Exports`] are all of them by name.
//!
//! The server checks what a client asks before it calls: an offset and a length lie within [`Export::size_bytes`], a
//! length is not zero, a read-only export is not asked to change. Beyond that nothing is promised of them; they need
//! not be aligned to anything.
//!
//! A method that panics fails its request with [`Failure::Io`], where panics unwind; the server and the connection go
//! on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What one export serves.
///
/// All methods take `&self` and are called by many threads at once, for ranges that may overlap: the order of
/// requests that are under way at the same time is the client's concern, a torn write among them too. A write that
/// has returned is seen by whatever is called afterwards, by any thread.
pub trait Export: Send + Sync {
    /// Bytes there are: a multiple of 512. It may grow while the export is served, and never shrinks; a client learns
    /// the new size when it connects anew.
    fn size_bytes(&self) -> u64;

    /// Whether changes are refused.
    fn read_only(&self) -> bool {
        false
    }

    /// Text for a person who lists the exports.
    fn description(&self) -> String {
        String::new()
    }

    /// Fills the whole buffer with what lies at `offset`.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure>;

    /// Puts `data` at `offset`.
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure>;

    /// Content of the range may be forgotten; it reads as zeros afterwards.
    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure>;

    /// The range reads as zeros afterwards; `zeroing`: what may become of its space.
    fn write_zeroes(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), Failure>;

    /// All writes that were acknowledged are where they survive what this export promises to survive.
    fn flush(&self) -> Result<(), Failure>;

    /// The state of the first `length` bytes, or fewer, from `offset`: how many bytes (at least one) have it, and
    /// which.
    fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure>;
}

/// What is shared is served as what it is.
impl<E: Export + ?Sized> Export for Arc<E> {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }
    fn read_only(&self) -> bool {
        (**self).read_only()
    }
    fn description(&self) -> String {
        (**self).description()
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        (**self).read(offset, buffer)
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        (**self).write(offset, data)
    }
    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        (**self).trim(offset, length)
    }
    fn write_zeroes(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), Failure> {
        (**self).write_zeroes(offset, length, zeroing)
    }
    fn flush(&self) -> Result<(), Failure> {
        (**self).flush()
    }
    fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure> {
        (**self).extent(offset, length)
    }
}

/// What may become of the space of a range that is to read as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroing {
    /// The range may become a hole, which must be faster than a write of as many zeros.
    MayPunch,
    /// The range keeps its space (`NBD_CMD_FLAG_NO_HOLE`): a later write to it must not fail for lack of that.
    NoHole,
}

/// State of a range of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Bytes that must be read to be known.
    Data,
    /// Reads as zeros, and has memory.
    Zero,
    /// Reads as zeros, and has no memory.
    Hole,
}

/// Why a request failed. The client is told by the error number of the protocol that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The content cannot be read or written.
    #[error("input or output failed")]
    Io,
    /// There is no room for what was written.
    #[error("no space is left")]
    NoSpace,
    /// The request makes no sense to the export.
    #[error("the request is not valid")]
    Invalid,
    /// The export takes no changes.
    #[error("the export is read-only")]
    ReadOnly,
    /// There is no memory to carry the request out.
    #[error("out of memory")]
    NoMemory,
    /// The export is closing.
    #[error("the server is shutting down")]
    Shutdown,
}

/// The exports of a server. They may change while it serves; a client that is connected keeps the export that it found.
pub trait Exports: Send + Sync {
    /// The export of that name; the empty name is that of the default export.
    fn find(&self, name: &str) -> Option<Arc<dyn Export>>;

    /// Name and description of each export that a client may know of.
    fn names(&self) -> Vec<(String, String)>;
}

/// An export whose panics are failures, and whose extents are what was asked for.
#[derive(Clone)]
pub(crate) struct Guarded(Arc<dyn Export>);

/// Calls, and takes a panic for a failure.
fn caught<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // An export that is left half changed by a panic is the export's concern; none of our state is in reach.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(Failure::Io))
}

impl Guarded {
    pub(crate) fn new(export: Arc<dyn Export>) -> Self {
        Self(export)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        caught(|| Ok(self.0.size_bytes())).unwrap_or(0)
    }

    pub(crate) fn read_only(&self) -> bool {
        caught(|| Ok(self.0.read_only())).unwrap_or(true)
    }

    pub(crate) fn description(&self) -> String {
        caught(|| Ok(self.0.description())).unwrap_or_default()
    }

    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        caught(|| self.0.read(offset, buffer))
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        caught(|| self.0.write(offset, data))
    }

    pub(crate) fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        caught(|| self.0.trim(offset, length))
    }

    pub(crate) fn write_zeroes(
        &self,
        offset: u64,
        length: u64,
        zeroing: Zeroing,
    ) -> Result<(), Failure> {
        caught(|| self.0.write_zeroes(offset, length, zeroing))
    }

    pub(crate) fn flush(&self) -> Result<(), Failure> {
        caught(|| self.0.flush())
    }

    /// Never more than `length` bytes, never none.
    pub(crate) fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure> {
        match caught(|| self.0.extent(offset, length))? {
            (0, _) => Err(Failure::Io),
            (bytes, extent) => Ok((bytes.min(length), extent)),
        }
    }
}
