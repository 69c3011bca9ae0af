//! Frames lent to compressed storage.

use super::ram::Limit;
use crate::inject::Kind;
use crate::schedule::{fires, note, random, step};
use crate::trace::What;
use coldpress_storage::{FRAME_BYTES, FrameIndex, FrameSource};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

/// Frames of one piece, each lent to nobody or to storage, as the limit allows.
pub struct StorageFrames {
    base: NonNull<u8>,
    count: usize,
    limit: Rc<Limit>,
    free: RefCell<Vec<u32>>,
    high_water: Cell<u32>,
    is_lent: Vec<Cell<bool>>,
}

// SAFETY: a simulation is one thread of the system; nothing of it is given to another.
unsafe impl Sync for StorageFrames {}

impl StorageFrames {
    /// `count` frames.
    pub fn new(count: usize, limit: Rc<Limit>) -> Self {
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(Self::layout(count)) };
        Self {
            base: NonNull::new(base).unwrap_or_else(|| handle_alloc_error(Self::layout(count))),
            count,
            limit,
            free: RefCell::new(Vec::with_capacity(count)),
            high_water: Cell::new(0),
            is_lent: (0..=count).map(|_| Cell::new(false)).collect(),
        }
    }

    fn layout(count: usize) -> Layout {
        Layout::from_size_align(count * FRAME_BYTES, FRAME_BYTES).expect("frames fit into memory")
    }

    /// Frames lent.
    pub fn lent(&self) -> usize {
        self.high_water.get() as usize - self.free.borrow().len()
    }
}

impl Drop for StorageFrames {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; whoever borrowed a frame is gone.
        unsafe { dealloc(self.base.as_ptr(), Self::layout(self.count)) };
    }
}

// SAFETY: each index stands for 4096 bytes of its own at a fixed address, zeroed at first; `is_lent`
// makes sure that none is lent twice.
unsafe impl FrameSource for StorageFrames {
    fn allocate(&self) -> Option<FrameIndex> {
        step(What::FrameAllocate, 0, 0, 0);
        if fires(Kind::StorageNoFrame) {
            return None;
        }
        if !self.limit.take() {
            note(Kind::StorageLimit);
            return None;
        }
        let mut free = self.free.borrow_mut();
        let frame = match free.len() {
            0 if (self.high_water.get() as usize) < self.count => {
                self.high_water.set(self.high_water.get() + 1);
                self.high_water.get()
            }
            0 => {
                self.limit.give();
                return None;
            }
            n => free.swap_remove(random().below(n as u64) as usize),
        };
        assert!(
            !self.is_lent[frame as usize].replace(true),
            "a frame is lent twice"
        );
        Some(FrameIndex(frame))
    }

    fn free(&self, frame: FrameIndex) {
        assert!(
            self.is_lent[frame.0 as usize].replace(false),
            "a frame is given back that was not lent"
        );
        // SAFETY: the frame is nobody's now; whoever still reads it shall notice.
        unsafe { self.address(frame).write_bytes(0xEE, FRAME_BYTES) };
        self.limit.give();
        self.free.borrow_mut().push(frame.0);
        step(What::FrameFree, 0, 0, frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        assert!(
            (1..=self.count).contains(&(frame.0 as usize)),
            "no such frame: {frame:?}"
        );
        // SAFETY: inside the allocation.
        unsafe { self.base.add((frame.0 as usize - 1) * FRAME_BYTES) }
    }
}
