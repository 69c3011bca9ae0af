//! The machine under the VMOs: frames of process memory by place, no mappings.
//!
//! Page faults are calls: nobody sees a page but by [`Memory::read`] and [`Memory::write`], which run under the lock
//! of its VMO. So there is nothing to protect or unmap, and no accessed bits.
//!
//! A page that is compressed keeps its frame: it goes from its place to a staging slot, and back if it does not
//! compress. Nothing is copied but where somebody touches it meanwhile.
//!
//! ```text
//!   place ──take──▶ slot ──release──▶ pool       put_back: slot ──▶ place       install_copy: a frame more, for a while
//! ```
//!
//! Locks: all but `wait`, `release`, `staging` and `chunk` run under a VMO's lock; below it those of places and frames,
//! which are leaves. [`Waiters`] is where threads wait for one another.

use crate::frames::{Frames, Purpose};
use crate::lock::HostLock;
use crate::mapping::Mapping;
use crate::places::Places;
use crate::storage_frames::StorageFrames;
use crate::waiters::MOST;
use crate::waiters::Waiters;
use coldpress_arena::{CHUNK_BYTES, ChunkSource};
use coldpress_codec::Page;
use coldpress_engine::{
    Access, Doubt, Host, Installed, Memory, PageIndex, Place, Protocol, STAGING_SLOTS, SegmentId,
    StagingSlot, Taken,
};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use std::time::Instant;

/// The clock does not begin with 0, which means "never" to some.
const CLOCK_BEGINS_NS: u64 = 1 << 40;

pub(crate) struct Machine {
    pub(crate) frames: Arc<Frames>,
    pub(crate) storage: StorageFrames,
    pub(crate) places: Places,
    /// The frame in each staging slot, or 0.
    slots: Box<[AtomicU32]>,
    pub(crate) waiters: Waiters,
    /// Memory of tables; the VMOs that use it go before the machine does.
    chunks: Mutex<Vec<Mapping>>,
    started: Instant,
}

impl Machine {
    /// A machine that may use so many bytes. `None`: no memory.
    pub(crate) fn new(limit_bytes: Option<u64>) -> Option<Self> {
        let frames = Arc::new(Frames::new(limit_bytes)?);
        Some(Self {
            storage: StorageFrames::new(frames.clone()),
            frames,
            places: Places::new(),
            slots: (0..STAGING_SLOTS).map(|_| AtomicU32::new(0)).collect(),
            waiters: Waiters::default(),
            chunks: Mutex::default(),
            started: Instant::now(),
        })
    }

    /// Bytes of the machine's own tables.
    pub(crate) fn table_bytes(&self) -> usize {
        self.places.bytes() + self.storage.table_bytes() + self.frames.table_bytes()
    }

    /// Pages in staging.
    pub(crate) fn staged(&self) -> u64 {
        let is_filled = |slot: &&AtomicU32| slot.load(Acquire) != 0;
        // A context has one slot.
        let slots = &self.slots[..MOST.into()];
        slots.iter().filter(is_filled).count() as u64
    }

    /// Waits until no page is in staging, which is for as long as one is compressed.
    pub(crate) fn wait_for_staging(&self) {
        while self.staged() > 0 {
            std::thread::yield_now();
        }
    }

    fn page(&self, frame: u32) -> *mut Page {
        self.frames.address(frame).as_ptr().cast()
    }

    fn page_at(&self, place: Place) -> *mut Page {
        let frame = self.places.get(place);
        debug_assert_ne!(frame, 0, "no page in place");
        self.page(frame)
    }

    /// Puts a fresh frame in place. `None`: there is none.
    fn fresh(&self, place: Place, purpose: Purpose) -> Option<*mut Page> {
        if !self.places.prepare(self, place) {
            return None;
        }
        let Some(frame) = self.frames.lend(purpose) else {
            self.places.let_go(place);
            return None;
        };
        self.places.put(place, frame);
        Some(self.page(frame))
    }

    fn fill(&self, place: Place, content: &Page, purpose: Purpose) -> Installed {
        let Some(page) = self.fresh(place, purpose) else {
            return Installed::NoFrame;
        };
        // SAFETY: a frame that was just lent to this place, whose VMO's lock is held: nobody else knows it.
        unsafe { page.write(*content) };
        self.waiters.wake(place);
        Installed::Done
    }
}

// SAFETY: fresh zeroed memory of the promised size, aligned to a page, which goes with the machine.
unsafe impl ChunkSource for Machine {
    fn chunk(&self) -> Option<NonNull<u8>> {
        let chunk = Mapping::new(CHUNK_BYTES)?;
        let start = chunk.start();
        self.chunks.lock().push(chunk);
        Some(start)
    }
}

// SAFETY: a page is moved by its frame's number, under the lock of its VMO, without which nobody writes to it; the
// frame in a slot is nobody else's until it is released.
unsafe impl Host for Machine {
    type RawLock = HostLock;
    type Frames = StorageFrames;
    type Stable<'a> = ();
    const PROTOCOL: Protocol = Protocol::UnderLock;
    const MAX_RUN: u32 = 1;

    fn stable(&self) {}

    fn frames(&self) -> &StorageFrames {
        &self.storage
    }

    fn now_ns(&self) -> u64 {
        CLOCK_BEGINS_NS + self.started.elapsed().as_nanos() as u64
    }

    fn take(&self, segment: SegmentId, first: PageIndex, wanted: u64, slot: StagingSlot) -> Taken {
        debug_assert_eq!(wanted, 1, "one page at a time");
        let frame = self.places.take((segment, first));
        let before = self.slots[slot.0 as usize].swap(frame, Release);
        debug_assert_eq!(before, 0, "the slot is in use");
        self.places.let_go((segment, first));
        Taken {
            moved: 1,
            ..Taken::default()
        }
    }

    unsafe fn staging(&self, slot: StagingSlot) -> &Page {
        let frame = self.slots[slot.0 as usize].load(Acquire);
        // SAFETY: a frame that was taken from its place, and is only read until it is released.
        unsafe { &*self.page(frame) }
    }

    fn release(&self, slot: StagingSlot, count: usize) {
        for slot in &self.slots[slot.0 as usize..][..count] {
            match slot.swap(0, Acquire) {
                0 => {}
                frame => self.frames.take_back(frame),
            }
        }
    }

    fn install(&self, segment: SegmentId, index: PageIndex, content: &Page) -> Installed {
        self.fill((segment, index), content, Purpose::StoredPage)
    }

    fn install_copy(
        &self,
        segment: SegmentId,
        index: PageIndex,
        content: &Page,
        _slot: StagingSlot,
    ) -> Installed {
        self.fill((segment, index), content, Purpose::Staged)
    }

    unsafe fn put_back(
        &self,
        segment: SegmentId,
        index: PageIndex,
        slot: StagingSlot,
    ) -> Installed {
        let place = (segment, index);
        self.places.prepare_return(self, place);
        let frame = self.slots[slot.0 as usize].swap(0, Acquire);
        self.places.put(place, frame);
        self.waiters.wake(place);
        Installed::Done
    }

    fn install_zero(&self, segment: SegmentId, index: PageIndex, _access: Access) -> Installed {
        self.fill((segment, index), &[0; 4096], Purpose::NewPage)
    }

    fn wake(&self, segment: SegmentId, index: PageIndex) {
        self.waiters.wake((segment, index));
    }

    fn poison(&self, segment: SegmentId, index: PageIndex, _doubt: Doubt) -> Installed {
        self.waiters.wake((segment, index));
        Installed::Done
    }

    fn let_changes_in(&self) {
        std::thread::yield_now();
    }
}

// SAFETY: a place has one frame (M1), and nobody reaches it but through these methods (M2), which run under the lock of
// its VMO.
unsafe impl Memory for Machine {
    fn read(&self, place: Place, offset: usize, into: &mut [u8]) {
        // SAFETY: the frame in place, to which nobody writes while the lock is held.
        let page = unsafe { &*self.page_at(place) };
        into.copy_from_slice(&page[offset..][..into.len()]);
    }

    fn write(&self, place: Place, offset: usize, bytes: &[u8]) {
        // SAFETY: the frame in place, which nobody reads or writes while the lock is held.
        let page = unsafe { &mut *self.page_at(place) };
        page[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    fn zero(&self, place: Place) {
        self.write(place, 0, &[0; 4096]);
    }

    fn drop_page(&self, place: Place) {
        self.frames.take_back(self.places.take(place));
        self.places.let_go(place);
    }

    fn rename(&self, from: Place, to: Place) {
        let frame = self.places.take(from);
        // The leaf that `from` needs no more may be the one that `to` needs.
        self.places.let_go(from);
        self.places.prepare_return(self, to);
        self.places.put(to, frame);
    }

    fn copy(&self, from: Place, to: Place) -> Installed {
        // SAFETY: the frame in place, to which nobody writes while the lock is held.
        let content = unsafe { *self.page_at(from) };
        self.fill(to, &content, Purpose::NewPage)
    }

    fn protect(&self, _place: Place) {}

    fn unmap(&self, _place: Place) {}

    fn wakes(&self, place: Place) -> u32 {
        self.waiters.wakes(place)
    }

    fn wait(&self, place: Place, worker: u16, seen: u32) {
        self.waiters.wait(place, worker, seen);
    }
}
