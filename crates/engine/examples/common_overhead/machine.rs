//! The leanest machine that VMOs run on, so that what is measured is the engine: frames in one
//! piece, a table of them for each segment, no mappings. One thread.

use coldpress_arena::{CHUNK_BYTES, ChunkSource, Zeroable};
use coldpress_codec::Page;
use coldpress_engine::lock::HeldRanks;
use coldpress_engine::{
    Doubt, Host, Installed, Memory, PageIndex, Place, SEGMENT_PAGES, SegmentId, StagingSlot, Taken,
};
use coldpress_storage::{FRAME_BYTES, FrameIndex, FrameSource};
use lock_api::{GuardSend, RawMutex};
use std::alloc::{Layout, alloc_zeroed};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::time::Instant;

/// A lock that nobody else wants.
pub struct Uncontended(AtomicBool);

impl HeldRanks for Uncontended {}

// SAFETY: zero is `false`: not locked.
unsafe impl Zeroable for Uncontended {}

// SAFETY: whoever turns `false` into `true` holds the lock, alone, until it is `false` again.
unsafe impl RawMutex for Uncontended {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to a new lock
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        assert!(self.try_lock(), "there is one thread");
    }

    fn try_lock(&self) -> bool {
        !self.0.swap(true, Acquire)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Release);
    }
}

/// Frames, numbered from 1.
pub struct Frames {
    memory: NonNull<u8>,
    free: RefCell<Vec<u32>>,
}

impl Frames {
    fn new(count: usize) -> Self {
        let layout = Layout::from_size_align(count * FRAME_BYTES, FRAME_BYTES).unwrap();
        // SAFETY: the layout is not empty; never freed.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory for the frames");
        let free = (1..=count as u32).rev().collect();
        Self {
            memory,
            free: RefCell::new(free),
        }
    }

    fn page(&self, frame: u32) -> *mut Page {
        self.address(FrameIndex(frame)).as_ptr().cast()
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

/// The frames in place in a segment, by index; 0 where there is none.
type Table = Box<[Cell<u32>]>;

/// The machine.
pub struct Machine {
    frames: Frames,
    tables: RefCell<Vec<Option<Table>>>,
    slot: Cell<u32>,
    started: Instant,
    leap_ns: Cell<u64>,
}

// SAFETY: the example has one thread.
unsafe impl Sync for Machine {}

impl Machine {
    pub fn new(frames: usize) -> Self {
        Self {
            frames: Frames::new(frames),
            tables: RefCell::default(),
            slot: Cell::new(0),
            started: Instant::now(),
            leap_ns: Cell::new(1 << 40),
        }
    }

    /// The clock leaps, so that pages age.
    pub fn leap(&self, ns: u64) {
        self.leap_ns.set(self.leap_ns.get() + ns);
    }

    fn with<R>(&self, (segment, index): Place, act: impl FnOnce(&Cell<u32>) -> R) -> R {
        let mut tables = self.tables.borrow_mut();
        let segment = segment as usize;
        if tables.len() <= segment {
            tables.resize_with(segment + 1, || None);
        }
        let table = tables[segment]
            .get_or_insert_with(|| (0..SEGMENT_PAGES).map(|_| Cell::new(0)).collect());
        act(&table[index as usize])
    }

    fn frame(&self, place: Place) -> u32 {
        let frame = self.with(place, Cell::get);
        assert_ne!(frame, 0, "no page in place");
        frame
    }

    fn put(&self, place: Place, frame: u32) -> Installed {
        assert_eq!(self.with(place, |at| at.replace(frame)), 0, "M1");
        Installed::Done
    }
}

// SAFETY: fresh zeroed memory of the promised size and alignment, never freed.
unsafe impl ChunkSource for Machine {
    fn chunk(&self) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(CHUNK_BYTES, 4096).unwrap();
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }
}

// SAFETY: one thread; a page changes its place by its frame's number.
unsafe impl Host for Machine {
    type RawLock = Uncontended;
    type Frames = Frames;
    type Stable<'a> = ();
    const UNDER_LOCK: bool = true;
    const MAX_RUN: u32 = 1;

    fn stable(&self) {}

    fn frames(&self) -> &Frames {
        &self.frames
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64 + self.leap_ns.get()
    }

    fn take(&self, segment: SegmentId, first: PageIndex, _: u64, _: StagingSlot) -> Taken {
        self.slot.set(self.with((segment, first), Cell::take));
        Taken {
            moved: 1,
            ..Taken::default()
        }
    }

    unsafe fn staging(&self, _: StagingSlot) -> &Page {
        // SAFETY: the one slot is filled, as the caller promises.
        unsafe { &*self.frames.page(self.slot.get()) }
    }

    fn release(&self, _: StagingSlot, _: usize) {
        match self.slot.take() {
            0 => {}
            frame => self.frames.free(FrameIndex(frame)),
        }
    }

    fn install(&self, segment: SegmentId, index: PageIndex, content: &Page) -> Installed {
        let Some(frame) = self.frames.allocate() else {
            return Installed::NoFrame;
        };
        // SAFETY: a frame of ours alone.
        unsafe { *self.frames.page(frame.0) = *content };
        self.put((segment, index), frame.0)
    }

    unsafe fn put_back(&self, segment: SegmentId, index: PageIndex, _: StagingSlot) -> Installed {
        self.put((segment, index), self.slot.take())
    }

    fn install_zero(&self, segment: SegmentId, index: PageIndex, _: bool) -> Installed {
        self.install(segment, index, &[0; 4096])
    }

    fn wake(&self, _: SegmentId, _: PageIndex) {}

    fn poison(&self, _: SegmentId, _: PageIndex, doubt: Doubt) -> Installed {
        panic!("nothing is damaged here: {doubt:?}");
    }

    fn let_changes_in(&self) {}
}

// SAFETY: one thread; pages keep their bytes.
unsafe impl Memory for Machine {
    fn read(&self, place: Place, offset: usize, into: &mut [u8]) {
        // SAFETY: a frame in place, which nobody else uses.
        let page = unsafe { &*self.frames.page(self.frame(place)) };
        into.copy_from_slice(&page[offset..][..into.len()]);
    }

    fn write(&self, place: Place, offset: usize, bytes: &[u8]) {
        // SAFETY: as above.
        let page = unsafe { &mut *self.frames.page(self.frame(place)) };
        page[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    fn zero(&self, place: Place) {
        self.write(place, 0, &[0; 4096]);
    }

    fn drop_page(&self, place: Place) {
        let frame = self.with(place, Cell::take);
        self.frames.free(FrameIndex(frame));
    }

    fn rename(&self, from: Place, to: Place) {
        let frame = self.with(from, Cell::take);
        self.put(to, frame);
    }

    fn copy(&self, from: Place, to: Place) -> Installed {
        let from = self.frames.page(self.frame(from));
        // SAFETY: a frame in place, which nobody else uses.
        self.install(to.0, to.1, unsafe { &*from })
    }

    fn protect(&self, _: Place) {}

    fn unmap(&self, _: Place) {}

    fn wakes(&self, _: Place) -> u32 {
        0
    }

    fn wait(&self, _: Place, _: u16, _: u32) {
        panic!("there is one thread");
    }
}
