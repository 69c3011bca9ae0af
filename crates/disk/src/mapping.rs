//! Anonymous memory of the process: zeroed, mapped in one piece, given back when it is dropped.
//!
//! Large pages are refused where content or tables lie: one touch would back two megabytes, and what a disk holds would
//! not be what it costs.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// Memory of the process.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory, bound to no thread; what lies in it is its user's affair.
unsafe impl Send for Mapping {}
// SAFETY: as above: a shared reference gives out an address and nothing else.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// So many bytes, all zero, backed page by page as they are touched. `None`: the kernel gives none.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        Self::advised(bytes, Advice::LinuxNoHugepage)
    }

    /// So many bytes, all zero, for a moment and for lookups at random places: backed by large pages where the kernel has
    /// some. `None`: it gives none.
    pub(crate) fn of_large_pages(bytes: usize) -> Option<Self> {
        Self::advised(bytes, Advice::LinuxHugepage)
    }

    fn advised(bytes: usize, advice: Advice) -> Option<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses where.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, protection, flags) }.ok()?;
        // SAFETY: the mapping just made. A kernel without large pages refuses, and has none.
        let _ = unsafe { madvise(start, bytes, advice) };
        let start = NonNull::new(start.cast())?;
        Some(Self { start, bytes })
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Has the kernel take back the memory behind `bytes` bytes, whole pages, from `start` on: they are zero
    /// when they are touched again.
    ///
    /// # Safety
    /// The bytes lie in one mapping, and nobody uses them.
    pub(crate) unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
        // SAFETY: as the caller promises. Locked memory stays, which is what who locks it asks for.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and who had addresses in it is gone: the owner drops its users first.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}
