//! How many frames for storage there are: mapped, free, given back.

use coldpress_uffd::PAGE_SIZE;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Most that the bitmaps have room for.
const MOST: usize = 1 << 28;

/// How many there are of which kind.
pub(crate) struct FrameCounts {
    /// Those that are mapped.
    pub(crate) mapped: AtomicU32,
    /// No more are mapped.
    pub(crate) most: AtomicU32,
    /// The first that nobody has had yet.
    pub(crate) fresh: AtomicU32,
    /// Frames that are free and still backed.
    pub(crate) free: AtomicU32,
    /// Frames that are free and were given back to the kernel.
    pub(crate) released: AtomicU32,
    /// Lowest word of each bitmap that may have a bit.
    pub(crate) hints: [AtomicU32; 2],
}

impl FrameCounts {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            mapped: AtomicU32::new(0),
            most: AtomicU32::new(0),
            fresh: AtomicU32::new(1),
            free: AtomicU32::new(0),
            released: AtomicU32::new(0),
            hints: [const { AtomicU32::new(0) }; 2],
        }
    }

    /// No more frames are mapped than for so many bytes.
    pub(crate) fn limit(&self, bytes: usize) {
        let frames = (bytes / PAGE_SIZE).min(MOST) as u32;
        self.most.store(frames.next_multiple_of(64), Relaxed);
    }
}
