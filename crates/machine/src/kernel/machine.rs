//! A kernel in memory: page frames by place, mappings, a clock that is set.
//!
//! It checks what [`Memory`] promises and is promised: every method but `wait` is called with a VMO's
//! lock held (`HELD`), there is one frame at a place at most, and a frame that is dropped, renamed or
//! protected is so in every mapping. Frames can run out, but not those that were reserved for pages in
//! staging.

use super::{Hook, SpinLock};
use crate::frames::Frames;
use coldpress_arena::ChunkSource;
use coldpress_codec::Page;
use coldpress_engine::lock::{HeldRanks, rank};
use coldpress_engine::vmo::VmoId;
use coldpress_engine::{
    Access, Doubt, Host, Installed, Memory, PageIndex, Place, Protocol, STAGING_SLOTS, SegmentId,
    StagingSlot, Taken,
};
use std::cell::UnsafeCell;
use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// A page as some program sees it: which program, which of its pages.
pub type Address = (u32, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    pub place: Place,
    pub writable: bool,
}

#[derive(Default)]
pub struct Memories {
    pages: HashMap<Place, Box<Page>>,
    mappings: BTreeMap<Address, Mapped>,
    accessed: HashMap<Place, bool>,
}

/// What the user pager of all VMOs does when it is asked.
#[derive(Default)]
pub enum Pager {
    #[default]
    None,
    Supplies(Box<dyn Fn(VmoId, u64) + Send>),
}

struct Slot {
    filled: AtomicBool,
    page: UnsafeCell<Option<Box<Page>>>,
}

pub struct Machine {
    memories: Mutex<Memories>,
    slots: Vec<Slot>,
    pub storage: Frames,
    clock_ns: AtomicU64,
    /// Page frames that may still be had.
    pub free_frames: AtomicUsize,
    /// Chunks that may still be had.
    pub chunks: AtomicUsize,
    /// Asking for a chunk is an error from now on.
    pub armed: AtomicBool,
    wakes: Mutex<u32>,
    woken: Condvar,
    pub pager: Mutex<Pager>,
    pub requests: AtomicU64,
    answers: AtomicU32,
    /// Instead of the first wait.
    pub on_wait: Hook,
    pub waits: AtomicU64,
}

// SAFETY: only the slots are not Sync by themselves; the reclaimer that owns a slot alone fills and
// releases it, and nobody reads it then (compress I1).
unsafe impl Sync for Machine {}

impl Machine {
    pub fn new(frames: usize) -> Self {
        Self {
            memories: Mutex::default(),
            slots: (0..STAGING_SLOTS)
                .map(|_| Slot {
                    filled: AtomicBool::new(false),
                    page: UnsafeCell::new(None),
                })
                .collect(),
            storage: Frames::new(frames),
            clock_ns: AtomicU64::new(1_000_000_000_000),
            free_frames: AtomicUsize::new(frames),
            chunks: AtomicUsize::new(1000),
            armed: AtomicBool::new(false),
            wakes: Mutex::new(0),
            woken: Condvar::new(),
            pager: Mutex::default(),
            requests: AtomicU64::new(0),
            answers: AtomicU32::new(0),
            on_wait: Hook::default(),
            waits: AtomicU64::new(0),
        }
    }

    fn memories(&self) -> MutexGuard<'_, Memories> {
        self.memories.lock().unwrap()
    }

    /// The same, where a VMO's lock must be held.
    fn guarded(&self) -> MutexGuard<'_, Memories> {
        let held = SpinLock::held().unwrap().load(Relaxed);
        assert!(
            !cfg!(debug_assertions) || held >> rank::VMO & 1 == 1,
            "without a VMO's lock"
        );
        self.memories()
    }

    pub fn pages_in_place(&self) -> usize {
        self.memories().pages.len()
    }

    pub fn filled_slots(&self) -> usize {
        let filled = |slot: &&Slot| slot.filled.load(Relaxed);
        self.slots.iter().filter(filled).count()
    }

    /// Shows a page at an address. Called with the VMO's lock held.
    pub fn map(&self, address: Address, place: Place, writable: bool) {
        let mut memories = self.guarded();
        assert!(memories.pages.contains_key(&place), "no page to be mapped");
        memories
            .mappings
            .insert(address, Mapped { place, writable });
    }

    /// What is mapped at an address.
    pub fn mapped(&self, address: Address) -> Option<Mapped> {
        self.memories().mappings.get(&address).copied()
    }

    /// The program reads or writes a byte at an address. `None`: it faults.
    pub fn touch(&self, address: Address, offset: usize, write: Option<u8>) -> Option<u8> {
        let mut memories = self.memories();
        let mapped = *memories.mappings.get(&address)?;
        memories.accessed.insert(mapped.place, true);
        let page = memories.pages.get_mut(&mapped.place).expect("M2");
        if let Some(byte) = write {
            if !mapped.writable {
                return None;
            }
            page[offset] = byte;
        }
        Some(page[offset])
    }

    fn take_frame(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.free_frames
            .fetch_update(Relaxed, Relaxed, take)
            .is_ok()
    }

    fn give_frame(&self) {
        self.free_frames.fetch_add(1, Relaxed);
    }

    fn put(&self, place: Place, content: &Page) -> Installed {
        let page = Box::new(*content);
        let before = self.guarded().pages.insert(place, page);
        assert!(before.is_none(), "M1: two frames at one place");
        self.wake_all();
        Installed::Done
    }

    fn wake_all(&self) {
        *self.wakes.lock().unwrap() += 1;
        self.woken.notify_all();
    }
}

// SAFETY: fresh zeroed memory of the promised size and alignment, never freed.
unsafe impl ChunkSource for Machine {
    fn chunk(&self) -> Option<NonNull<u8>> {
        assert!(!self.armed.load(Relaxed), "a chunk was asked for");
        crate::kit::next_chunk(&self.chunks)
    }
}

// SAFETY: a page is moved under the machine's lock, which every access takes; a slot's page is
// overwritten in `release` only.
unsafe impl Host for Machine {
    type RawLock = SpinLock;
    type Frames = Frames;
    type Stable<'a> = ();
    const PROTOCOL: Protocol = Protocol::UnderLock;
    const MAX_RUN: u32 = 1;

    fn stable(&self) {}

    fn frames(&self) -> &Frames {
        &self.storage
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns.load(Relaxed)
    }

    fn take(&self, segment: SegmentId, first: PageIndex, wanted: u64, slot: StagingSlot) -> Taken {
        assert_eq!(wanted, 1, "one page at a time");
        let mut memories = self.guarded();
        let page = memories.pages.remove(&(segment, first)).expect("tracked");
        memories.accessed.remove(&(segment, first));
        memories
            .mappings
            .retain(|_, mapped| mapped.place != (segment, first));
        let to = &self.slots[slot.0 as usize];
        assert!(!to.filled.load(Acquire), "the slot is in use");
        // SAFETY: nobody reads a slot that is not filled; its reclaimer is one thread.
        unsafe { *to.page.get() = Some(page) };
        to.filled.store(true, Release);
        Taken {
            moved: 1,
            ..Taken::default()
        }
    }

    unsafe fn staging(&self, slot: StagingSlot) -> &Page {
        let slot = &self.slots[slot.0 as usize];
        assert!(slot.filled.load(Acquire), "a slot is read that is empty");
        // SAFETY: a filled slot is only read, until it is released; the caller's promise.
        unsafe { (*slot.page.get()).as_deref() }.unwrap()
    }

    fn release(&self, slot: StagingSlot, count: usize) {
        for slot in &self.slots[slot.0 as usize..][..count] {
            if slot.filled.load(Acquire) {
                // SAFETY: no entry names the slot any more (compress I1), so nobody reads it.
                unsafe { (*slot.page.get()).take() };
                slot.filled.store(false, Release);
                self.give_frame();
            }
        }
    }

    fn harvest_accessed(&self, segment: SegmentId, first: PageIndex, pages: u64) -> u64 {
        let mut memories = self.guarded();
        (0..64)
            .filter(|n| pages & 1 << n != 0)
            .filter(|n| {
                let place = (segment, first + *n as u32);
                memories.accessed.remove(&place).is_some()
            })
            .fold(0, |set, n| set | 1 << n)
    }

    fn install(&self, segment: SegmentId, index: PageIndex, content: &Page) -> Installed {
        if self.take_frame() {
            self.put((segment, index), content)
        } else {
            Installed::NoFrame
        }
    }

    fn install_copy(
        &self,
        segment: SegmentId,
        index: PageIndex,
        content: &Page,
        _slot: StagingSlot,
    ) -> Installed {
        // The frame that was reserved when the page was taken: for a moment there are two.
        let less = |left: usize| Some(left.wrapping_sub(1));
        self.free_frames
            .fetch_update(Relaxed, Relaxed, less)
            .unwrap();
        self.put((segment, index), content)
    }

    unsafe fn put_back(
        &self,
        segment: SegmentId,
        index: PageIndex,
        slot: StagingSlot,
    ) -> Installed {
        // SAFETY: as the caller promises.
        let page = *unsafe { self.staging(slot) };
        self.install_copy(segment, index, &page, slot)
    }

    fn install_zero(&self, segment: SegmentId, index: PageIndex, _access: Access) -> Installed {
        self.install(segment, index, &[0; 4096])
    }

    fn wake(&self, _segment: SegmentId, _index: PageIndex) {
        self.wake_all();
    }

    fn poison(&self, _segment: SegmentId, _index: PageIndex, _doubt: Doubt) -> Installed {
        self.wake_all();
        Installed::Done
    }

    fn let_changes_in(&self) {
        std::thread::yield_now();
    }
}

// SAFETY: all under one lock; pages keep their bytes.
unsafe impl Memory for Machine {
    fn read(&self, place: Place, offset: usize, into: &mut [u8]) {
        let memories = self.guarded();
        into.copy_from_slice(&memories.pages[&place][offset..][..into.len()]);
    }

    fn write(&self, place: Place, offset: usize, bytes: &[u8]) {
        let mut memories = self.guarded();
        let page = memories.pages.get_mut(&place).expect("a page in place");
        page[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    fn zero(&self, place: Place) {
        self.write(place, 0, &[0; 4096]);
    }

    fn drop_page(&self, place: Place) {
        self.unmap(place);
        let page = self.guarded().pages.remove(&place);
        assert!(page.is_some(), "no page to be dropped");
        self.give_frame();
    }

    fn rename(&self, from: Place, to: Place) {
        self.unmap(from);
        let mut memories = self.guarded();
        let page = memories.pages.remove(&from).expect("a page in place");
        let before = memories.pages.insert(to, page);
        assert!(before.is_none(), "M1: two frames at one place");
    }

    fn copy(&self, from: Place, to: Place) -> Installed {
        let page = *self.guarded().pages[&from];
        self.install(to.0, to.1, &page)
    }

    fn protect(&self, place: Place) {
        let mut memories = self.guarded();
        for mapped in memories.mappings.values_mut() {
            mapped.writable &= mapped.place != place;
        }
    }

    fn unmap(&self, place: Place) {
        let mut memories = self.guarded();
        memories.mappings.retain(|_, mapped| mapped.place != place);
    }

    fn request(&self, vmo: VmoId, page: u64, seen: u32) -> bool {
        let held = SpinLock::held().unwrap().load(Relaxed);
        assert_eq!(held, 0, "waits with a lock held");
        let Pager::Supplies(supply) = &*self.pager.lock().unwrap() else {
            return false;
        };
        self.requests.fetch_add(1, Relaxed);
        supply(vmo, page);
        assert_ne!(self.answers.load(Relaxed), seen, "who waits is not told");
        true
    }

    fn answers(&self, _vmo: VmoId) -> u32 {
        self.answers.load(Relaxed)
    }

    fn answered(&self, _vmo: VmoId, pages: std::ops::Range<u64>) {
        assert!(!pages.is_empty());
        self.answers.fetch_add(1, Relaxed);
    }

    fn wakes(&self, _place: Place) -> u32 {
        *self.wakes.lock().unwrap()
    }

    fn wait(&self, _place: Place, _worker: u16, seen: u32) {
        let held = SpinLock::held().unwrap().load(Relaxed);
        assert_eq!(held, 0, "waits with a lock held");
        self.waits.fetch_add(1, Relaxed);
        if self.on_wait.run() {
            return;
        }
        let wakes = self.wakes.lock().unwrap();
        let limit = Duration::from_secs(20);
        let (_wakes, timeout) = self
            .woken
            .wait_timeout_while(wakes, limit, |wakes| *wakes == seen)
            .unwrap();
        assert!(!timeout.timed_out(), "nobody wakes");
    }
}
