//! Frames in one piece, for one thread.

use coldpress_storage::{FRAME_BYTES, FrameIndex, FrameSource};
use std::alloc::{Layout, alloc_zeroed};
use std::cell::RefCell;
use std::ptr::NonNull;

/// Frames, numbered from 1.
pub struct Frames {
    memory: NonNull<u8>,
    free: RefCell<Vec<u32>>,
}

impl Frames {
    /// So many frames.
    pub fn new(count: usize) -> Self {
        let layout = Layout::from_size_align(count * FRAME_BYTES, FRAME_BYTES).unwrap();
        // SAFETY: the layout is not empty; never freed.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory for the frames");
        let free = (1..=count as u32).rev().collect();
        Self {
            memory,
            free: RefCell::new(free),
        }
    }
}

// SAFETY: the example has one thread.
unsafe impl Sync for Frames {}
// SAFETY: as above.
unsafe impl Send for Frames {}

// SAFETY: each number stands for 4096 bytes of its own, lent to one borrower at a time.
unsafe impl FrameSource for Frames {
    fn allocate(&self) -> Option<FrameIndex> {
        self.free.borrow_mut().pop().map(FrameIndex)
    }

    fn free(&self, frame: FrameIndex) {
        self.free.borrow_mut().push(frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        // SAFETY: inside the allocation, for numbers that were lent.
        unsafe { self.memory.add((frame.0 as usize - 1) * FRAME_BYTES) }
    }
}
