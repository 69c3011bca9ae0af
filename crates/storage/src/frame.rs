//! Frames, and the host that lends them.
//!
//! A storage asks for single frames only, never for runs of them: memory compression works when
//! memory is short and scattered, and an allocation of a higher order would be the first to
//! fail. (zsmalloc's chains of several pages are one storage; they too take frames one by one.)

use core::ptr::NonNull;

/// Bytes of a frame: one page.
pub const FRAME_BYTES: usize = 4096;

/// The number of a frame among those of its source. At least 1, so that zeroed memory holds
/// none; see [`FrameSource`] for which numbers there are.
#[derive(Copy, Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FrameIndex(pub u32);

/// A host that lends single frames of [`FRAME_BYTES`] bytes to one storage.
///
/// Indices are dense: [`allocate`](Self::allocate) returns an index that was freed before, or
/// the successor of the largest one it has ever returned, beginning with 1. A storage keeps its
/// table of frames by index, so each number that is left out costs it a record. The order is a
/// matter of efficiency, not of soundness: a storage gives back a frame whose number lies beyond
/// its table, and reports that there is no memory.
///
/// Frames need not be zeroed. `allocate` and `free` are called under the storage lock of the
/// engine and on paths that must not wait: they may take a lock of their own that is held
/// shortly, and make a system call, but not wait for memory to be reclaimed.
///
/// # Safety
/// From the return of `allocate` until it is given to `free`, a frame's
/// [`address`](Self::address) is always the same, aligned to [`FRAME_BYTES`], valid for reads
/// and writes of [`FRAME_BYTES`] bytes from any thread, and its bytes are used by nobody but the
/// borrower and are initialised. `allocate` returns no frame that is lent already, and never `FrameIndex(0)`.
pub unsafe trait FrameSource: Sync {
    /// A frame, or `None` where there is no memory.
    fn allocate(&self) -> Option<FrameIndex>;

    /// Takes back a frame that `allocate` returned. Its content is lost.
    fn free(&self, frame: FrameIndex);

    /// Where the frame is. Must not block, and takes no lock: it is called for every
    /// decompression. Meaningless for a frame that is not lent.
    fn address(&self, frame: FrameIndex) -> NonNull<u8>;
}
