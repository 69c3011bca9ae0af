//! Page frames, and the limit on all frames of the machine.

use coldpress_codec::{PAGE_SIZE, Page};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

/// The number of a page frame, from 1; 0 is none.
pub type FrameNumber = u32;

/// What a free frame holds: whoever still reads it shall notice.
const FREED: u8 = 0xEE;

/// How many frames of any kind may be used, and are.
#[derive(Debug)]
pub struct Limit {
    most: Cell<usize>,
    used: Cell<usize>,
}

impl Limit {
    /// At most so many.
    pub fn new(most: usize) -> Self {
        Self {
            most: Cell::new(most),
            used: Cell::new(0),
        }
    }

    /// Takes one, if there is one.
    pub fn take(&self) -> bool {
        let fits = self.used.get() < self.most.get();
        if fits {
            self.used.set(self.used.get() + 1);
        }
        fits
    }

    /// Gives one back.
    pub fn give(&self) {
        self.used.set(self.used.get() - 1);
    }

    /// Frames used.
    pub fn used(&self) -> usize {
        self.used.get()
    }

    /// Frames that may be used besides.
    pub fn free(&self) -> usize {
        self.most.get().saturating_sub(self.used.get())
    }

    /// Another limit; more may be used at this moment.
    pub fn set(&self, most: usize) {
        self.most.set(most);
    }
}

/// Page frames.
pub struct Ram {
    base: NonNull<u8>,
    count: usize,
    free: RefCell<Vec<FrameNumber>>,
    is_used: Vec<Cell<bool>>,
}

impl Ram {
    /// `count` frames.
    pub fn new(count: usize) -> Self {
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(Self::layout(count)) };
        Self {
            base: NonNull::new(base).unwrap_or_else(|| handle_alloc_error(Self::layout(count))),
            count,
            free: RefCell::new((1..=count as u32).rev().collect()),
            is_used: (0..=count).map(|_| Cell::new(false)).collect(),
        }
    }

    fn layout(count: usize) -> Layout {
        Layout::from_size_align(count * PAGE_SIZE, PAGE_SIZE).expect("frames fit into memory")
    }

    /// A frame; its content is whatever. There are always enough: it is the [`Limit`] that runs
    /// out.
    pub fn allocate(&self) -> FrameNumber {
        let frame = self
            .free
            .borrow_mut()
            .pop()
            .expect("more frames than places");
        assert!(!self.is_used[frame as usize].replace(true));
        frame
    }

    /// A frame that holds this.
    pub fn allocate_with(&self, content: &Page) -> FrameNumber {
        let frame = self.allocate();
        self.with(frame, |page| page.copy_from_slice(content));
        frame
    }

    /// Gives a frame back.
    pub fn free(&self, frame: FrameNumber) {
        self.with(frame, |page| page.fill(FREED));
        assert!(
            self.is_used[frame as usize].replace(false),
            "a free frame is freed"
        );
        self.free.borrow_mut().push(frame);
    }

    /// Acts on the page in a frame. `act` takes no step.
    pub fn with<R>(&self, frame: FrameNumber, act: impl FnOnce(&mut Page) -> R) -> R {
        assert!(self.is_used[frame as usize].get(), "a free frame is used");
        // SAFETY: inside the allocation, initialised; coroutines change hands in steps only, so
        // nobody else has a reference to it, but for readers of staging, whose frames are not
        // written (`Staging`).
        act(unsafe { &mut *self.address(frame).as_ptr() })
    }

    /// Where a frame's page is.
    pub fn address(&self, frame: FrameNumber) -> NonNull<Page> {
        assert!((1..=self.count).contains(&(frame as usize)));
        // SAFETY: inside the allocation.
        unsafe { self.base.add((frame as usize - 1) * PAGE_SIZE) }.cast()
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; whoever used a frame is gone.
        unsafe { dealloc(self.base.as_ptr(), Self::layout(self.count)) };
    }
}
