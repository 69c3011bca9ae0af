//! The leanest machine that VMOs run on: frames of whatever source, a table of them for each
//! segment, no mappings, one thread. What is measured on it is the engine, and what an engine counts
//! there is decided by what was done to it.
use crate::spin_lock::SpinLock;
use coldpress_arena::ChunkSource;
use coldpress_codec::Page;
use coldpress_engine::{
    Access, Doubt, Host, Installed, Memory, PageIndex, Place, Protocol, SEGMENT_PAGES, SegmentId,
    StagingSlot, Taken,
};
use coldpress_storage::{FrameIndex, FrameSource};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::time::Instant;

/// The frames in place in a segment, by index; 0 where there is none.
type Table = Box<[Cell<u32>]>;

/// The machine, over frames that it may have for itself or share with others.
pub struct Machine<F> {
    pub frames: F,
    tables: RefCell<Vec<Option<Table>>>,
    /// What is in the one staging slot; 0: nothing.
    slot: Cell<u32>,
    set_ns: Cell<u64>,
    runs_since: Option<Instant>,
}

// SAFETY: it is used by one thread at a time.
unsafe impl<F> Sync for Machine<F> {}

impl<F: FrameSource> Machine<F> {
    /// A machine whose clock stands still unless it is set.
    pub fn new(frames: F) -> Self {
        Self {
            frames,
            tables: RefCell::default(),
            slot: Cell::new(0),
            set_ns: Cell::new(1 << 40),
            runs_since: None,
        }
    }

    /// The same, with a clock that runs.
    pub fn with_running_clock(frames: F) -> Self {
        Self {
            runs_since: Some(Instant::now()),
            ..Self::new(frames)
        }
    }

    /// The clock leaps, so that pages age.
    pub fn leap(&self, ns: u64) {
        self.set_ns.set(self.set_ns.get() + ns);
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

    fn page(&self, frame: u32) -> *mut Page {
        assert_ne!(frame, 0, "no page in place");
        self.frames.address(FrameIndex(frame)).as_ptr().cast()
    }

    fn at(&self, place: Place) -> *mut Page {
        self.page(self.with(place, Cell::get))
    }

    fn put(&self, place: Place, frame: u32) -> Installed {
        assert_eq!(self.with(place, |at| at.replace(frame)), 0, "M1");
        Installed::Done
    }

    /// Pages in place or in staging.
    pub fn pages(&self) -> usize {
        let tables = self.tables.borrow();
        let cells = tables.iter().flatten().flatten().chain([&self.slot]);
        cells.filter(|cell| cell.get() != 0).count()
    }
}

// SAFETY: fresh zeroed memory of the promised size and alignment, never freed.
unsafe impl<F> ChunkSource for Machine<F> {
    fn chunk(&self) -> Option<NonNull<u8>> {
        crate::kit::fresh_chunk()
    }
}

// SAFETY: one thread at a time; a page changes its place by its frame's number.
unsafe impl<F: FrameSource> Host for Machine<F> {
    type RawLock = SpinLock;
    type Frames = F;
    type Stable<'a>
        = ()
    where
        F: 'a;
    const PROTOCOL: Protocol = Protocol::UnderLock;
    const MAX_RUN: u32 = 1;

    fn stable(&self) {}

    fn frames(&self) -> &F {
        &self.frames
    }

    fn now_ns(&self) -> u64 {
        let ran = self
            .runs_since
            .map_or(0, |start| start.elapsed().as_nanos() as u64);
        self.set_ns.get() + ran
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
        unsafe { &*self.page(self.slot.get()) }
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
        unsafe { *self.page(frame.0) = *content };
        self.put((segment, index), frame.0)
    }

    unsafe fn put_back(&self, segment: SegmentId, index: PageIndex, _: StagingSlot) -> Installed {
        self.put((segment, index), self.slot.take())
    }

    fn install_zero(&self, segment: SegmentId, index: PageIndex, _: Access) -> Installed {
        self.install(segment, index, &[0; 4096])
    }

    fn wake(&self, _: SegmentId, _: PageIndex) {}

    fn poison(&self, _: SegmentId, _: PageIndex, doubt: Doubt) -> Installed {
        panic!("nothing is damaged here: {doubt:?}");
    }

    fn let_changes_in(&self) {}
}

// SAFETY: one thread at a time; pages keep their bytes.
unsafe impl<F: FrameSource> Memory for Machine<F> {
    fn read(&self, place: Place, offset: usize, into: &mut [u8]) {
        // SAFETY: a frame in place, which nobody else uses.
        let page = unsafe { &*self.at(place) };
        into.copy_from_slice(&page[offset..][..into.len()]);
    }

    fn write(&self, place: Place, offset: usize, bytes: &[u8]) {
        // SAFETY: as above.
        let page = unsafe { &mut *self.at(place) };
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
        // SAFETY: a frame in place, which nobody else uses.
        self.install(to.0, to.1, unsafe { &*self.at(from) })
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
