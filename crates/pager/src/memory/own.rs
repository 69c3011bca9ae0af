//! The pager's own memory: areas of the address space that grow as they are needed (`areas`).
//!
//! Nothing is reserved ahead: the kernel gives pages as they are touched, and address space a little ahead of that, in
//! steps that are made where waiting is allowed. All lies in one *home*, which makes "is this ours?" a comparison,
//! keeps everything the fault path touches away from the program's own mappings, and is inherited by a forked
//! child at the same place.
//!
//! Invariant I1: no page of the home is ever managed, evicted or registered, except that staging is registered as
//! the destination of moves.

use crate::machine::linux::Linux;
use crate::machine::os::{self, Os};
use crate::machine::ranked_lock::RankedLock;
use crate::machine::ranks;
use crate::memory::areas::{Area, Areas};
use crate::memory::frame_counts::FrameCounts;
use coldpress_arena::{CHUNK_BYTES, ChunkSource};
use coldpress_engine::STAGING_SLOTS;
use coldpress_linux::sys;
use coldpress_uffd::{AddressRange, Errno, PAGE_SIZE};
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Most pager threads at a time.
pub const MAX_THREADS: usize = 130;

/// Windows of 32 MiB in the 47 bits of a user address.
pub const WINDOW_SLOTS: usize = 1 << (47 - WINDOW_BITS);
const WINDOW_BITS: usize = 25;

const STAGING: usize = STAGING_SLOTS * PAGE_SIZE;
/// Chunks for tables that are mapped ahead.
const CHUNKS_AHEAD: usize = 1;

/// Windows that one part of the index has.
const PART_SLOTS: usize = 2048;
const INDEX_PARTS: usize = WINDOW_SLOTS / PART_SLOTS;
const PART_BYTES: usize = PART_SLOTS * size_of::<AtomicU32>();

/// The pager's memory.
pub struct Memory<O: Os = Linux> {
    pub(crate) areas: Areas<O>,
    pub(crate) frames: FrameCounts,
    /// Bytes of tables that were handed out.
    tables: lock_api::Mutex<RankedLock<{ ranks::CHUNKS }, O>, usize>,
    /// Next thread's stack.
    next_stack: AtomicU32,
    /// From the upper bits of an address to a part of the window index; 0: there is none yet.
    index: [AtomicUsize; INDEX_PARTS],
    /// Parts that were not used yet.
    spare_parts: lock_api::Mutex<RankedLock<{ ranks::INDEX_PARTS }, O>, AddressRange>,
}

impl<O: Os> Default for Memory<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Memory<O> {
    /// Nothing mapped yet.
    pub const fn new() -> Self {
        Self {
            areas: Areas::new(),
            frames: FrameCounts::new(),
            tables: lock_api::Mutex::const_new(lock_api::RawMutex::INIT, 0),
            next_stack: AtomicU32::new(0),
            index: [const { AtomicUsize::new(0) }; INDEX_PARTS],
            spare_parts: lock_api::Mutex::const_new(
                lock_api::RawMutex::INIT,
                AddressRange { start: 0, end: 0 },
            ),
        }
    }

    /// Finds a home, with room for one thread's stack, and for storage of so many bytes at the most.
    pub fn settle(&self, storage_bytes: usize) -> Result<(), Errno> {
        let stack = sys::STACK_BYTES;
        let settled = self.areas.settle(Area::Stacks, stack, storage_bytes);
        settled.then_some(()).ok_or(Errno::NOMEM)
    }

    /// Maps what a pager needs to begin with. Storage may become as large as `storage_bytes`.
    pub fn reserve(&self, storage_bytes: usize) -> Result<(), Errno> {
        self.frames.limit(storage_bytes);
        let begun = self.areas.grow(Area::Staging, STAGING) && self.prepare();
        begun.then_some(()).ok_or(Errno::NOMEM)
    }

    /// Maps a little more than is used, where waiting is allowed, so that it need not be mapped under a lock.
    /// By the reclaimer, or before there is one. `false`: there is no more.
    pub fn prepare(&self) -> bool {
        let tables = *self.tables.lock() + CHUNKS_AHEAD * CHUNK_BYTES;
        self.areas.grow(Area::Tables, tables) && self.prepare_frames()
    }

    /// All of the address space that is ours, mapped or not.
    pub fn range(&self) -> AddressRange {
        self.areas.home()
    }

    /// `count` chunks for tables in one piece.
    pub fn chunks(&self, count: usize) -> Option<NonNull<u8>> {
        let mut used = self.tables.lock();
        let end = *used + count * CHUNK_BYTES;
        if !self.areas.grow(Area::Tables, end) {
            return None;
        }
        let at = self.areas.start(Area::Tables) + *used;
        *used = end;
        NonNull::new(at as *mut u8)
    }

    /// Lowest address of a thread's stack that nobody has had yet.
    pub fn stack(&self) -> Option<*mut u8> {
        let n = self.next_stack.fetch_add(1, Relaxed) as usize;
        let room = n < MAX_THREADS && self.areas.grow(Area::Stacks, (n + 1) * sys::STACK_BYTES);
        let at = self.areas.start(Area::Stacks) + n * sys::STACK_BYTES;
        room.then_some(at as *mut u8)
    }

    /// The stack that was given out last has no thread. Only one thread takes stacks meanwhile.
    pub fn take_back_stack(&self) {
        self.next_stack.fetch_sub(1, Relaxed);
    }

    /// All stacks can be given out again: in the child of a fork, whose pager threads do not
    /// exist. Nor do those that could hold a lock.
    pub fn reset_stacks(&self) {
        self.next_stack.store(0, Relaxed);
        self.areas.reset();
        // SAFETY: the child has one thread.
        unsafe {
            self.tables.raw().reset();
            self.spare_parts.raw().reset();
        }
    }

    /// The staging area.
    pub fn staging(&self) -> AddressRange {
        AddressRange::new(self.areas.start(Area::Staging), STAGING)
    }

    /// The slot of the window index for `address`, if there is one.
    pub fn window_slot(&self, address: usize) -> Option<&AtomicU32> {
        let slot = address >> WINDOW_BITS;
        let part = self.index.get(slot / PART_SLOTS)?.load(Acquire);
        // SAFETY: a part of the index: PART_SLOTS words of zeroed memory that stays.
        (part != 0).then(|| unsafe { &*(part as *const AtomicU32).add(slot % PART_SLOTS) })
    }

    /// The same, made where there is none. The caller serialises.
    pub fn make_window_slot(&self, address: usize) -> Option<&AtomicU32> {
        let part = self
            .index
            .get(address >> WINDOW_BITS >> PART_SLOTS.ilog2())?;
        if part.load(Relaxed) == 0 {
            let mut spare = self.spare_parts.lock();
            if spare.is_empty() {
                let chunk = self.chunks(1)?.as_ptr() as usize;
                *spare = AddressRange::new(chunk, CHUNK_BYTES);
            }
            part.store(spare.start, Release);
            spare.start += PART_BYTES;
        }
        self.window_slot(address)
    }

    /// Where the program has locked all of its memory, ours must not be: it could not be given back, and what is
    /// locked of the program's could be moved to it.
    pub(crate) fn notice_locking(&self) {
        if self.is_locked() {
            self.areas.unlock();
        }
    }

    /// Gives pages of ours back to the kernel, whether they are locked or not.
    ///
    /// # Safety
    /// They are whole pages of ours whose content nobody needs.
    pub(crate) unsafe fn give_back(&self, at: usize, bytes: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            if O::madvise(at, bytes, os::MADV_DONTNEED) < 0 {
                self.areas.unlock();
                O::madvise(at, bytes, os::MADV_DONTNEED);
            }
        }
    }
}

const _: () = assert!(CHUNK_BYTES.is_multiple_of(PART_BYTES));

// SAFETY: chunks are cut one after the other from zeroed, never reused memory.
unsafe impl<O: Os> ChunkSource for Memory<O> {
    fn chunk(&self) -> Option<NonNull<u8>> {
        self.chunks(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_index_grows_with_what_is_looked_up() {
        let memory = Memory::<Linux>::new();
        memory.settle(1 << 30).unwrap();
        let [low, high] = [0x5555_0000_0000, 0x7fff_0000_0000];
        assert!(memory.window_slot(low).is_none());
        memory.make_window_slot(low).unwrap().store(1, Relaxed);
        memory.make_window_slot(high).unwrap().store(2, Relaxed);
        let read = |address| memory.window_slot(address).map(|slot| slot.load(Relaxed));
        assert_eq!(read(low + (32 << 20) - 1), Some(1));
        assert_eq!(read(low + (32 << 20)), Some(0));
        assert_eq!((read(high), read(high ^ 1 << 40)), (Some(2), None));
        assert!(memory.make_window_slot(1 << 47).is_none());
        assert_eq!(*memory.tables.lock(), CHUNK_BYTES);
    }
}
