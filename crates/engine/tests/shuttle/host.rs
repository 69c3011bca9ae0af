//! A machine for shuttle: every lock, every section and every call of the engine is a point at
//! which another thread may go on. Plain memory otherwise; one operating-system thread runs it.

use coldpress_arena::{CHUNK_BYTES, ChunkSource, Zeroable};
use coldpress_codec::Page;
use coldpress_engine::lock::HeldRanks;
use coldpress_engine::{
    Access, Doubt, Host, Installed, PageIndex, Protocol, SegmentId, StagingSlot, Taken,
};
use coldpress_storage::{FRAME_BYTES, FrameIndex, FrameSource};
use lock_api::{GuardSend, RawMutex};
use shuttle::sync::{RwLock, RwLockReadGuard};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Lets another thread go on, if the scheduler wants that.
pub fn point() {
    shuttle::sync::atomic::AtomicBool::new(false).load(std::sync::atomic::Ordering::SeqCst);
}

/// A lock whose holder can be preempted, and whose waiters give way.
pub struct Yielding(AtomicBool);

impl HeldRanks for Yielding {
    fn held() -> Option<&'static AtomicU32> {
        shuttle::thread_local! {
            static HELD: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        }
        Some(HELD.with(|held| *held))
    }
}

// SAFETY: zero is `false`: not locked.
unsafe impl Zeroable for Yielding {}

// SAFETY: whoever turns `false` into `true` holds the lock, alone, until it is `false` again.
unsafe impl RawMutex for Yielding {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to a new lock
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        point();
        while self.0.swap(true, Acquire) {
            shuttle::thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        point();
        !self.0.swap(true, Acquire)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Release);
    }
}

/// Frames for storage.
pub struct Frames {
    memory: NonNull<u8>,
    free: Mutex<Vec<u32>>,
}

// SAFETY: the bytes belong to whoever borrows a frame, as FrameSource demands.
unsafe impl Sync for Frames {}
// SAFETY: as above; nothing is bound to a thread.
unsafe impl Send for Frames {}

const FRAMES: usize = 16;

impl Frames {
    fn layout() -> Layout {
        Layout::from_size_align(FRAMES * FRAME_BYTES, FRAME_BYTES).unwrap()
    }

    fn new() -> Self {
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(Self::layout()) }).unwrap();
        Self {
            memory,
            free: Mutex::new((1..=FRAMES as u32).collect()),
        }
    }

    pub fn lent(&self) -> usize {
        FRAMES - self.free.lock().unwrap().len()
    }
}

// SAFETY: each number stands for 4096 bytes of its own; one is lent to one borrower at a time.
unsafe impl FrameSource for Frames {
    fn allocate(&self) -> Option<FrameIndex> {
        self.free.lock().unwrap().pop().map(FrameIndex)
    }

    fn free(&self, frame: FrameIndex) {
        // SAFETY: the frame is nobody's now; whoever still reads it shall notice.
        unsafe { self.address(frame).write_bytes(0xEE, FRAME_BYTES) };
        self.free.lock().unwrap().push(frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        assert!((1..=FRAMES).contains(&(frame.0 as usize)));
        // SAFETY: inside the allocation.
        unsafe { self.memory.add((frame.0 as usize - 1) * FRAME_BYTES) }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody uses it any more.
        unsafe { dealloc(self.memory.as_ptr(), Self::layout()) };
    }
}

/// Pages of memory a machine has.
pub const PAGES: usize = 4;
const SLOTS: usize = 256;

/// The machine. `KERNEL`: pages are taken and installed under the lock of their VMO.
pub struct Machine<const KERNEL: bool> {
    pages: [Mutex<Option<Box<Page>>>; PAGES],
    slots: Vec<UnsafeCell<Option<Box<Page>>>>,
    pub frames: Frames,
    gate: RwLock<()>,
    clock_ns: AtomicU64,
    chunks: Mutex<Vec<NonNull<u8>>>,
}

// SAFETY: shuttle runs one thread at a time; a slot is filled and emptied by its reclaimer.
unsafe impl<const KERNEL: bool> Sync for Machine<KERNEL> {}
// SAFETY: as above; nothing is bound to a thread.
unsafe impl<const KERNEL: bool> Send for Machine<KERNEL> {}

shuttle::thread_local! {
    static STABLE: Cell<u32> = Cell::new(0);
}

impl<const KERNEL: bool> Machine<KERNEL> {
    pub fn new() -> Self {
        Self {
            pages: Default::default(),
            slots: (0..SLOTS).map(|_| UnsafeCell::new(None)).collect(),
            frames: Frames::new(),
            gate: RwLock::new(()),
            clock_ns: AtomicU64::new(1),
            chunks: Mutex::default(),
        }
    }

    /// Acts on the page in place, if it is. What a program does to its memory: one step.
    pub fn touch<R>(&self, index: PageIndex, act: impl FnOnce(&mut Page) -> R) -> Option<R> {
        point();
        let mut page = self.pages[index as usize].lock().unwrap();
        page.as_deref_mut().map(act)
    }

    /// The program's memory, for a change.
    pub fn take_away(&self, index: PageIndex) -> Option<Box<Page>> {
        self.pages[index as usize].lock().unwrap().take()
    }

    pub fn give(&self, index: PageIndex, page: Option<Box<Page>>) {
        *self.pages[index as usize].lock().unwrap() = page;
    }

    /// Acts while no stable section is open.
    pub fn exclusively<R>(&self, act: impl FnOnce() -> R) -> R {
        let _exclusive = self.gate.write().unwrap();
        act()
    }

    pub fn advance(&self, ns: u64) {
        self.clock_ns.fetch_add(ns, Relaxed);
    }

    fn in_section(&self) {
        assert!(
            KERNEL || STABLE.with(Cell::get) > 0,
            "outside a stable section"
        );
        point();
    }

    fn put(&self, index: PageIndex, content: &Page) -> Installed {
        self.in_section();
        let mut page = self.pages[index as usize].lock().unwrap();
        if page.is_some() {
            assert!(!KERNEL, "a page is installed over another");
            return Installed::AlreadyPresent;
        }
        *page = Some(Box::new(*content));
        Installed::Done
    }
}

impl<const KERNEL: bool> Drop for Machine<KERNEL> {
    fn drop(&mut self) {
        // The engine is gone.
        SPARE_CHUNKS
            .0
            .lock()
            .unwrap()
            .append(&mut self.chunks.lock().unwrap());
    }
}

/// Chunks that no machine uses. Each of thousands of schedules needs some, and to have the kernel make and clear their
/// pages takes longer than all else.
struct SpareChunks(Mutex<Vec<NonNull<u8>>>);

// SAFETY: nobody uses them.
unsafe impl Sync for SpareChunks {}

static SPARE_CHUNKS: SpareChunks = SpareChunks(Mutex::new(Vec::new()));

// SAFETY: zeroed memory of the promised size and alignment, used by nobody else before the engine is gone.
unsafe impl<const KERNEL: bool> ChunkSource for Machine<KERNEL> {
    fn chunk(&self) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(CHUNK_BYTES, 4096).unwrap();
        let spare = SPARE_CHUNKS.0.lock().unwrap().pop();
        // SAFETY: the layout is not empty.
        let chunk = spare.or_else(|| NonNull::new(unsafe { alloc(layout) }))?;
        // SAFETY: so many bytes, of which no machine knows.
        unsafe { chunk.write_bytes(0, CHUNK_BYTES) };
        self.chunks.lock().unwrap().push(chunk);
        Some(chunk)
    }
}

/// An open stable section.
pub struct Stable<'a>(#[expect(dead_code, reason = "held")] Option<RwLockReadGuard<'a, ()>>);

impl Drop for Stable<'_> {
    fn drop(&mut self) {
        STABLE.with(|open| open.set(open.get() - 1));
    }
}

// SAFETY: `take` moves a page's box, and every write is through the box in place.
unsafe impl<const KERNEL: bool> Host for Machine<KERNEL> {
    type RawLock = Yielding;
    type Frames = Frames;
    type Stable<'a> = Stable<'a>;

    const PROTOCOL: Protocol = if KERNEL {
        Protocol::UnderLock
    } else {
        Protocol::StableSections
    };
    const MAX_RUN: u32 = if KERNEL { 1 } else { 64 };

    fn stable(&self) -> Stable<'_> {
        let guard = (!KERNEL).then(|| self.gate.read().unwrap());
        STABLE.with(|open| open.set(open.get() + 1));
        Stable(guard)
    }

    fn frames(&self) -> &Frames {
        &self.frames
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns.load(Relaxed)
    }

    fn take(&self, _: SegmentId, first: PageIndex, wanted: u64, slot: StagingSlot) -> Taken {
        self.in_section();
        let mut taken = Taken::default();
        for n in 0..64 - wanted.leading_zeros() {
            if wanted & 1 << n == 0 {
                continue;
            }
            point();
            match self.take_away(first + n) {
                Some(page) => {
                    // SAFETY: nobody reads a slot that is empty.
                    let to = unsafe { &mut *self.slots[(u32::from(slot.0) + n) as usize].get() };
                    assert!(to.replace(page).is_none(), "the slot is in use");
                    taken.moved |= 1 << n;
                }
                None => taken.holes |= 1 << n,
            }
        }
        taken
    }

    unsafe fn staging(&self, slot: StagingSlot) -> &Page {
        // SAFETY: a filled slot is only read until it is released; the caller's promise.
        unsafe { (*self.slots[slot.0 as usize].get()).as_deref() }.expect("the slot is empty")
    }

    fn release(&self, slot: StagingSlot, count: usize) {
        point();
        for slot in &self.slots[slot.0 as usize..][..count] {
            // SAFETY: no entry names the slot any more (compress I1), so nobody reads it.
            unsafe { (*slot.get()).take() };
        }
    }

    fn install(&self, _: SegmentId, index: PageIndex, content: &Page) -> Installed {
        self.put(index, content)
    }

    fn install_zero(&self, _: SegmentId, index: PageIndex, _: Access) -> Installed {
        self.put(index, &[0; 4096])
    }

    fn wake(&self, _: SegmentId, _: PageIndex) {}

    fn poison(&self, _: SegmentId, _: PageIndex, doubt: Doubt) -> Installed {
        panic!("nothing is damaged here: {doubt:?}");
    }

    fn let_changes_in(&self) {
        assert!(
            KERNEL || STABLE.with(Cell::get) == 0,
            "waits inside a stable section"
        );
        shuttle::thread::yield_now();
    }
}
