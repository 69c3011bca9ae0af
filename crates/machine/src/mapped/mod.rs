//! A machine in memory: program pages in boxes, frames in one piece, a clock that is set.
//!
//! ```text
//!  places[segment][index]  Option<Box<page>>, under a lock each     the program's memory
//!  slots[1024]         Option<Box<page>>                        staging; `take` moves boxes
//!  frames              one allocation                           compressed storage
//!  gate                RwLock: shared = stable section, exclusive = a change is delivered
//! ```
//!
//! It checks that the engine keeps to the contract of [`Host`]: what must happen in a stable
//! section does, no slot is read that is not filled, and no page is met in a gap of a run. What
//! tests want to go wrong they set: pinned pages, memory that is gone, a changing address space,
//! takes that stop early, frames or chunks that run out. Hooks let a test act in the middle of
//! the engine's work.
mod below;
mod contents;
mod system;

pub use crate::kit::*;
pub use below::*;
pub use contents::*;
pub use system::*;

use crate::frames::Frames;
use crate::spin_lock::SpinLock;
use coldpress_arena::ChunkSource;
use coldpress_codec::Page;
use coldpress_engine::{
    Access, Doubt, Host, Installed, PageIndex, STAGING_SLOTS, SegmentId, StagingSlot, Taken,
};
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

/// What staging holds once it is released: nobody may read it any more.
const RELEASED: u8 = 0xDD;

thread_local! {
    /// Stable sections that this thread has open.
    static STABLE: Cell<u32> = const { Cell::new(0) };
}

/// One page of the program's memory.
#[derive(Default)]
pub struct Place {
    pub page: Option<Box<Page>>,
    pub poisoned: bool,
    /// There is no such memory.
    pub gone: bool,
    /// Nothing can be put in place, for a reason that the machine cannot name.
    pub refuses: bool,
    /// The page cannot be taken.
    pub pinned: bool,
    /// The program has touched the page since that was asked last.
    pub accessed: bool,
    /// How often those who wait here were woken.
    wakes: u32,
    /// How often content was put in place.
    installs: u32,
}

impl Place {
    pub fn wakes(&self) -> u32 {
        self.wakes
    }
}

struct Slot {
    filled: AtomicBool,
    page: UnsafeCell<Option<Box<Page>>>,
}

pub struct Machine {
    places: Vec<Vec<Mutex<Place>>>,
    slots: Vec<Slot>,
    /// Pages of memory that nobody uses.
    spare: Mutex<Vec<Box<Page>>>,
    pub frames: Frames,
    /// What is written back.
    pub below: Below,
    clock_ns: AtomicU64,
    gate: RwLock<()>,
    /// Chunks that may still be had.
    pub chunks: AtomicUsize,
    /// Asking for a chunk is an error from now on.
    pub armed: AtomicBool,
    /// So many installations answer that the address space is changing.
    pub changing: AtomicU32,
    /// The next takes move at most so many pages and say nothing of the rest.
    pub take_limit: AtomicU32,
    pub takes: AtomicU64,
    /// Contiguous stretches of pages in these takes: on Linux a call each.
    pub stretches: AtomicU64,
    pub let_in: AtomicU64,
    pub on_take: Hook,
    /// Before a stable section is opened.
    pub on_stable: Hook,
    pub on_let_changes: Hook,
    pub on_install_zero: Hook,
}

// SAFETY: only the slots are not Sync by themselves; the engine's reclaimer alone fills and
// releases them, and nobody reads them then (compress I1).
unsafe impl Sync for Machine {}

impl Machine {
    /// `segments` segments, of which the first `pages` pages each are memory.
    pub fn new(segments: usize, pages: usize) -> Self {
        let place = |_| Mutex::new(Place::default());
        Self {
            places: (0..segments)
                .map(|_| (0..pages).map(place).collect())
                .collect(),
            slots: (0..STAGING_SLOTS)
                .map(|_| Slot {
                    filled: AtomicBool::new(false),
                    page: UnsafeCell::new(None),
                })
                .collect(),
            spare: Mutex::new(Vec::with_capacity(segments * pages)),
            frames: Frames::new(segments * pages),
            below: Below::default(),
            clock_ns: AtomicU64::new(1_000 * SECOND),
            gate: RwLock::new(()),
            chunks: AtomicUsize::new(1000),
            armed: AtomicBool::new(false),
            changing: AtomicU32::new(0),
            take_limit: AtomicU32::new(u32::MAX),
            takes: AtomicU64::new(0),
            stretches: AtomicU64::new(0),
            let_in: AtomicU64::new(0),
            on_take: Hook::default(),
            on_stable: Hook::default(),
            on_let_changes: Hook::default(),
            on_install_zero: Hook::default(),
        }
    }

    /// The page's place, locked. Never held over a call of the engine but in a change.
    pub fn place(&self, segment: SegmentId, index: PageIndex) -> MutexGuard<'_, Place> {
        self.places[segment as usize - 1][index as usize]
            .lock()
            .unwrap()
    }

    pub fn is_present(&self, segment: SegmentId, index: PageIndex) -> bool {
        self.place(segment, index).page.is_some()
    }

    pub fn wakes(&self, segment: SegmentId, index: PageIndex) -> u32 {
        self.place(segment, index).wakes
    }

    pub fn installs(&self, segment: SegmentId, index: PageIndex) -> u32 {
        self.place(segment, index).installs
    }

    /// Puts content in place behind the engine's back.
    pub fn put(&self, segment: SegmentId, index: PageIndex, content: &Page) {
        self.place(segment, index).page = Some(self.copy_of(content));
    }

    /// The memory of a page is dropped.
    pub fn zap(&self, segment: SegmentId, index: PageIndex) {
        let mut place = self.place(segment, index);
        place.poisoned = false;
        if let Some(page) = place.page.take() {
            self.spare.lock().unwrap().push(page);
        }
    }

    pub fn advance(&self, ns: u64) {
        self.clock_ns.fetch_add(ns, Relaxed);
    }

    /// Acts while no stable section is open.
    pub fn exclusively<R>(&self, act: impl FnOnce() -> R) -> R {
        assert_eq!(STABLE.get(), 0, "a change inside a stable section");
        let _exclusive = self.gate.write().unwrap();
        act()
    }

    pub fn filled_slots(&self) -> usize {
        let filled = |slot: &&Slot| slot.filled.load(Relaxed);
        self.slots.iter().filter(filled).count()
    }

    /// Has `pages` pages of memory at hand, so that no allocator is called for them.
    pub fn stock(&self, pages: usize) {
        let mut spare = self.spare.lock().unwrap();
        spare.extend((0..pages).map(|_| Box::new([0; 4096])));
        spare.reserve(pages);
    }

    fn copy_of(&self, content: &Page) -> Box<Page> {
        let spare = self.spare.lock().unwrap().pop();
        let mut page = spare.unwrap_or_else(|| Box::new([0; 4096]));
        page.copy_from_slice(content);
        page
    }

    fn put_in_place(&self, segment: SegmentId, index: PageIndex, content: &Page) -> Installed {
        assert!(STABLE.get() > 0, "installed outside a stable section");
        let changing = |left: u32| left.checked_sub(1);
        if self
            .changing
            .fetch_update(Relaxed, Relaxed, changing)
            .is_ok()
        {
            return Installed::Changing;
        }
        let mut place = self.place(segment, index);
        if place.gone {
            return Installed::Gone;
        }
        if place.refuses {
            return Installed::Refused;
        }
        place.wakes += 1;
        if place.page.is_some() || place.poisoned {
            return Installed::AlreadyPresent;
        }
        place.page = Some(self.copy_of(content));
        place.installs += 1;
        Installed::Done
    }
}

// SAFETY: fresh zeroed memory of the promised size and alignment, never freed.
unsafe impl ChunkSource for Machine {
    fn chunk(&self) -> Option<NonNull<u8>> {
        assert!(!self.armed.load(Relaxed), "a chunk was asked for");
        crate::kit::next_chunk(&self.chunks)
    }
}

/// An open stable section.
pub struct Stable<'a>(#[expect(dead_code, reason = "held")] RwLockReadGuard<'a, ()>);

impl Drop for Stable<'_> {
    fn drop(&mut self) {
        STABLE.set(STABLE.get() - 1);
    }
}

// SAFETY: `take` moves a page's box under its place's lock, which every write holds; a slot's
// page is overwritten in `release` only.
unsafe impl Host for Machine {
    type RawLock = SpinLock;
    type Frames = Frames;
    type Stable<'a> = Stable<'a>;

    fn stable(&self) -> Stable<'_> {
        self.on_stable.run();
        let guard = self.gate.read().unwrap();
        STABLE.set(STABLE.get() + 1);
        Stable(guard)
    }

    fn frames(&self) -> &Frames {
        &self.frames
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns.load(Relaxed)
    }

    fn take(&self, segment: SegmentId, first: PageIndex, wanted: u64, slot: StagingSlot) -> Taken {
        assert!(STABLE.get() > 0, "taken outside a stable section");
        assert_eq!(wanted & 1, 1, "the lowest bit is set");
        self.takes.fetch_add(1, Relaxed);
        let stretches = (wanted & !(wanted << 1)).count_ones();
        self.stretches.fetch_add(stretches.into(), Relaxed);
        self.on_take.run();
        let mut taken = Taken::default();
        let limit = self.take_limit.load(Relaxed);
        for n in 0..64 - wanted.leading_zeros() {
            let bit = 1 << n;
            let mut place = self.place(segment, first + n);
            if wanted & bit == 0 {
                assert!(place.page.is_none(), "a page in a gap of a run");
            } else if taken.moved.count_ones() >= limit {
                // Nothing is said of this page.
            } else if place.pinned {
                taken.refused |= bit;
            } else if let Some(page) = place.page.take() {
                place.accessed = false;
                let to = &self.slots[slot.0 as usize + n as usize];
                assert!(!to.filled.load(Acquire), "the slot is in use");
                // SAFETY: nobody reads a slot that is not filled; the reclaimer is one thread.
                unsafe { *to.page.get() = Some(page) };
                to.filled.store(true, Release);
                taken.moved |= bit;
            } else {
                taken.holes |= bit;
            }
        }
        taken
    }

    unsafe fn staging(&self, slot: StagingSlot) -> &Page {
        let slot = &self.slots[slot.0 as usize];
        assert!(slot.filled.load(Acquire), "a slot is read that is empty");
        // SAFETY: a filled slot is only read, until it is released; the caller's promise.
        unsafe { (*slot.page.get()).as_deref() }.unwrap()
    }

    fn release(&self, slot: StagingSlot, count: usize) {
        assert_eq!(STABLE.get(), 0, "released in a stable section");
        for slot in &self.slots[slot.0 as usize..][..count] {
            if slot.filled.load(Acquire) {
                // SAFETY: no entry names the slot any more (compress I1), so nobody reads it.
                let page = unsafe { (*slot.page.get()).take() };
                slot.filled.store(false, Release);
                let mut page = page.unwrap();
                page.fill(RELEASED);
                self.spare.lock().unwrap().push(page);
            }
        }
    }

    fn harvest_accessed(&self, segment: SegmentId, first: PageIndex, pages: u64) -> u64 {
        assert!(STABLE.get() > 0, "harvested outside a stable section");
        (0..64)
            .filter(|n| pages & 1 << n != 0)
            .filter(|&n| std::mem::take(&mut self.place(segment, first + n).accessed))
            .fold(0, |set, n| set | 1 << n)
    }

    fn install(&self, segment: SegmentId, index: PageIndex, content: &Page) -> Installed {
        self.put_in_place(segment, index, content)
    }

    fn install_zero(&self, segment: SegmentId, index: PageIndex, _access: Access) -> Installed {
        self.on_install_zero.run();
        self.put_in_place(segment, index, &[0; 4096])
    }

    fn wake(&self, segment: SegmentId, index: PageIndex) {
        self.place(segment, index).wakes += 1;
    }

    fn poison(&self, segment: SegmentId, index: PageIndex, _doubt: Doubt) -> Installed {
        assert!(STABLE.get() > 0, "poisoned outside a stable section");
        let mut place = self.place(segment, index);
        place.wakes += 1;
        if place.page.is_some() {
            return Installed::AlreadyPresent;
        }
        place.poisoned = true;
        Installed::Done
    }

    fn writes_back(&self) -> bool {
        self.below.takes.load(Relaxed)
    }

    fn write_back(&self, owner: u64, payload: &[u8]) -> Option<u32> {
        assert_eq!(STABLE.get(), 0, "written back in a stable section");
        coldpress_engine::lock::assert_none_held::<SpinLock>();
        self.below.put(owner, payload)
    }

    fn read_back(&self, record: u32, owner: u64, into: &mut Page) -> Option<usize> {
        assert_eq!(STABLE.get(), 0, "read back in a stable section");
        self.below.get(record, owner, into)
    }

    fn give_up_record(&self, record: u32, owner: u64) {
        self.below.remove(record, owner);
    }

    fn let_changes_in(&self) {
        assert_eq!(STABLE.get(), 0, "waits inside a stable section");
        self.let_in.fetch_add(1, Relaxed);
        if !self.on_let_changes.run() {
            std::thread::yield_now();
        }
    }
}
