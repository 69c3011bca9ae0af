//! Frames for compressed storage, of which there are so many; checks what its borrower does.

use coldpress_storage::{FRAME_BYTES, FrameIndex, FrameSource};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

struct Lent {
    /// Given back, in the order of giving.
    free: Vec<u32>,
    high_water: u32,
    is_lent: Vec<bool>,
}

pub struct Frames {
    /// What was allocated, in which `base` is the first page.
    memory: NonNull<u8>,
    base: NonNull<u8>,
    count: usize,
    lent: Mutex<Lent>,
    /// There is no frame to be had.
    pub refuse: AtomicBool,
}

// SAFETY: the bytes behind `base` belong to whoever borrows a frame, as FrameSource demands.
unsafe impl Sync for Frames {}
// SAFETY: as above; nothing is bound to a thread.
unsafe impl Send for Frames {}

impl Frames {
    pub fn new(count: usize) -> Self {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(Self::layout(count)) };
        let memory = NonNull::new(memory).unwrap();
        // SAFETY: the layout has so many bytes more.
        let base = unsafe { memory.add(memory.align_offset(FRAME_BYTES)) };
        Self {
            memory,
            base,
            count,
            lent: Mutex::new(Lent {
                free: Vec::with_capacity(count),
                high_water: 0,
                is_lent: vec![false; count + 1],
            }),
            refuse: AtomicBool::new(false),
        }
    }

    /// One frame more, to have them aligned: asked for the alignment, the allocator would clear all of it.
    fn layout(count: usize) -> Layout {
        Layout::array::<u8>((count + 1) * FRAME_BYTES).unwrap()
    }

    pub fn lent(&self) -> usize {
        let lent = self.lent.lock().unwrap();
        lent.high_water as usize - lent.free.len()
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; whoever borrowed a frame is gone.
        unsafe { dealloc(self.memory.as_ptr(), Self::layout(self.count)) };
    }
}

// SAFETY: each index stands for 4096 bytes of its own, at a fixed address, zeroed at first;
// `is_lent` makes sure that none is lent twice.
unsafe impl FrameSource for Frames {
    fn allocate(&self) -> Option<FrameIndex> {
        if self.refuse.load(Relaxed) {
            return None;
        }
        let mut lent = self.lent.lock().unwrap();
        let frame = match lent.free.pop() {
            Some(frame) => frame,
            None if (lent.high_water as usize) < self.count => {
                lent.high_water += 1;
                lent.high_water
            }
            None => return None,
        };
        assert!(!std::mem::replace(&mut lent.is_lent[frame as usize], true));
        Some(FrameIndex(frame))
    }

    fn free(&self, frame: FrameIndex) {
        let mut lent = self.lent.lock().unwrap();
        let was_lent = std::mem::replace(&mut lent.is_lent[frame.0 as usize], false);
        assert!(was_lent, "a frame is given back that was not lent");
        // SAFETY: the frame is nobody's now; whoever still reads it shall notice.
        unsafe { self.address(frame).write_bytes(0xEE, FRAME_BYTES) };
        lent.free.push(frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        assert!((1..=self.count).contains(&(frame.0 as usize)));
        // SAFETY: inside the allocation.
        unsafe { self.base.add((frame.0 as usize - 1) * FRAME_BYTES) }
    }
}
