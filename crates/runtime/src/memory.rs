//! The pager's own memory: one reservation of address space, made at the start.
//!
//! ```text
//!  base                                                                              end
//! │ stacks │ staging │ window index │ frame bitmaps │ tables (chunks) … │ frames …      │
//! ```
//!
//! It is reserved without being backed: the kernel gives pages as they are touched. One
//! reservation makes "is this ours?" a comparison, keeps everything the fault path touches away
//! from the program's own mappings, and is inherited by a forked child at the same place.
//!
//! Invariant I1: no page of the reservation is ever managed, evicted or registered, except
//! that staging is registered as the destination of moves.

use crate::sys;
use coldpress_arena::{CHUNK_BYTES, ChunkSource};
use coldpress_engine::STAGING_SLOTS;
use coldpress_storage::{FrameIndex, FrameSource};
use coldpress_uffd::{AddressRange, Errno, PAGE_SIZE};
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Most pager threads at a time.
pub const MAX_THREADS: usize = 130;

/// Windows of 32 MiB in the 47 bits of a user address.
pub const WINDOW_SLOTS: usize = 1 << (47 - 25);

const STACKS: usize = MAX_THREADS * sys::STACK_BYTES;
const STAGING: usize = STAGING_SLOTS * PAGE_SIZE;
const WINDOW_INDEX: usize = WINDOW_SLOTS * 4;
/// Least room for tables.
pub const LEAST_TABLES: usize = 256 << 20;
/// So many free frames, and one part in so many of all that are backed, are kept.
const IDLE_FRAMES: u32 = 256;
const IDLE_PART: u32 = 64;
/// One page kept inaccessible on both sides of staging, so that it is a mapping of its own.
const FENCE: usize = PAGE_SIZE;

/// The reservation.
pub struct Memory {
    base: AtomicUsize,
    end: AtomicUsize,
    frames_base: AtomicUsize,
    frames: AtomicU32,
    /// Next chunk for tables; chunks end where the frame area begins.
    next_chunk: AtomicUsize,
    /// Next thread's stack.
    next_stack: AtomicU32,
    fresh: AtomicU32,
    /// Frames that are free and still backed.
    free: AtomicU32,
    /// Frames that are free and were given back to the kernel.
    released: AtomicU32,
    /// Lowest word of each bitmap that may have a bit.
    hints: [AtomicU32; 2],
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Nothing reserved yet.
    pub const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            frames_base: AtomicUsize::new(0),
            frames: AtomicU32::new(0),
            next_chunk: AtomicUsize::new(0),
            next_stack: AtomicU32::new(0),
            fresh: AtomicU32::new(1),
            free: AtomicU32::new(0),
            released: AtomicU32::new(0),
            hints: [const { AtomicU32::new(0) }; 2],
        }
    }

    /// Reserves room for storage of up to `storage_bytes`, or as much of it as the address
    /// space limit allows.
    pub fn reserve(&self, storage_bytes: usize) -> Result<(), Errno> {
        let mut frames = (storage_bytes / PAGE_SIZE).next_multiple_of(64);
        loop {
            let tables = (frames * PAGE_SIZE / 16).max(LEAST_TABLES);
            let fixed = STACKS + FENCE + STAGING + FENCE + WINDOW_INDEX;
            let bitmaps = (frames / 8 * 2).next_multiple_of(PAGE_SIZE);
            let tables_at = (fixed + bitmaps).next_multiple_of(CHUNK_BYTES);
            let len = tables_at + tables.next_multiple_of(CHUNK_BYTES) + frames * PAGE_SIZE;
            // SAFETY: a fresh mapping at a place of the kernel's choice.
            let mapped = unsafe {
                mmap_anonymous(
                    core::ptr::null_mut(),
                    len + CHUNK_BYTES,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )
            };
            match mapped {
                Ok(at) => {
                    let base = (at as usize).next_multiple_of(CHUNK_BYTES);
                    self.base.store(base, Relaxed);
                    self.end.store(at as usize + len + CHUNK_BYTES, Relaxed);
                    self.next_chunk.store(base + tables_at, Relaxed);
                    self.frames_base
                        .store(base + len - frames * PAGE_SIZE, Relaxed);
                    self.frames.store(frames as u32, Release);
                    // SAFETY: our own mapping; huge pages would back what was never touched,
                    // and the fences are never touched.
                    unsafe {
                        sys::madvise(base, len, sys::MADV_NOHUGEPAGE);
                        for fence in [STACKS, STACKS + FENCE + STAGING] {
                            let fence = (base + fence) as *mut core::ffi::c_void;
                            let _ = rustix::mm::mprotect(
                                fence,
                                FENCE,
                                rustix::mm::MprotectFlags::empty(),
                            );
                        }
                    }
                    return Ok(());
                }
                Err(errno) if frames <= (64 << 20) / PAGE_SIZE => return Err(errno),
                Err(_) => frames = (frames / 2).next_multiple_of(64),
            }
        }
    }

    /// The whole reservation.
    pub fn range(&self) -> AddressRange {
        AddressRange {
            start: self.base.load(Relaxed),
            end: self.end.load(Relaxed),
        }
    }

    /// `count` chunks for tables in one piece.
    pub fn chunks(&self, count: usize) -> Option<NonNull<u8>> {
        let bytes = count * CHUNK_BYTES;
        let at = self.next_chunk.fetch_add(bytes, Relaxed);
        if at + bytes > self.frames_base.load(Relaxed) {
            self.next_chunk.fetch_sub(bytes, Relaxed);
            return None;
        }
        NonNull::new(at as *mut u8)
    }

    /// Lowest address of a thread's stack that nobody has had yet.
    pub fn stack(&self) -> Option<*mut u8> {
        let n = self.next_stack.fetch_add(1, Relaxed) as usize;
        let at = self.base.load(Relaxed) + n * sys::STACK_BYTES;
        (n < MAX_THREADS).then_some(at as *mut u8)
    }

    /// The stack that was given out last has no thread. Only one thread takes stacks meanwhile.
    pub fn take_back_stack(&self) {
        self.next_stack.fetch_sub(1, Relaxed);
    }

    /// All stacks can be given out again: in the child of a fork, whose pager threads do not
    /// exist.
    pub fn reset_stacks(&self) {
        self.next_stack.store(0, Relaxed);
    }

    /// The staging area.
    pub fn staging(&self) -> AddressRange {
        AddressRange::new(self.base.load(Relaxed) + STACKS + FENCE, STAGING)
    }

    /// The slot of the window index for `address`.
    pub fn window_slot(&self, address: usize) -> Option<&AtomicU32> {
        let slot = address >> 25;
        let base = self.base.load(Relaxed) + STACKS + FENCE + STAGING + FENCE;
        // SAFETY: the index lies there, WINDOW_SLOTS words of zeroed memory that stays.
        (slot < WINDOW_SLOTS).then(|| unsafe { &*(base as *const AtomicU32).add(slot) })
    }

    fn bitmap(&self, which: usize) -> &[AtomicU64] {
        let words = self.frames.load(Acquire) as usize / 64;
        let base = self.base.load(Relaxed) + STACKS + FENCE + STAGING + FENCE + WINDOW_INDEX;
        // SAFETY: two bitmaps of `words` zeroed words each lie there and stay.
        unsafe { core::slice::from_raw_parts((base as *const AtomicU64).add(which * words), words) }
    }

    /// Frames that are backed: in use, or free and not yet released.
    pub fn backed_frames(&self) -> u32 {
        self.fresh.load(Relaxed) - 1 - self.released.load(Relaxed)
    }

    /// Frames that hold something.
    pub fn used_frames(&self) -> u32 {
        self.backed_frames().saturating_sub(self.free.load(Relaxed))
    }

    /// Free frames that are worth keeping backed: others are free again soon.
    fn worth_keeping(&self) -> u32 {
        IDLE_FRAMES + self.backed_frames() / IDLE_PART
    }

    /// Gives all frames back, whatever they hold: in the child of a fork that has no pager.
    pub fn drop_storage(&self) {
        let at = self.frames_base.load(Relaxed);
        let used = self.fresh.load(Relaxed) as usize * PAGE_SIZE;
        // SAFETY: nobody reads storage where there is no pager.
        unsafe { sys::madvise(at, used, sys::MADV_DONTNEED) };
    }

    /// Whether more frames are free than are worth keeping.
    pub fn has_too_many(&self) -> bool {
        self.free.load(Relaxed) > self.worth_keeping()
    }

    /// Gives free frames back to the kernel, the uppermost first, in at most `calls`. Under the storage's lock, by
    /// the reclaimer.
    ///
    /// Runs however short: where pages are restored here and there, hardly ever are neighbours free for long, and
    /// the frames of all that were stored would stay beside the pages.
    pub fn release_idle(&self, calls: usize) {
        self.release_while(calls, || self.has_too_many());
    }

    /// Gives all free frames back to the kernel. Under the storage's lock.
    pub fn release_all(&self) {
        self.release_while(usize::MAX, || true);
    }

    fn release_while(&self, calls: usize, goes_on: impl Fn() -> bool) {
        let used = (self.fresh.load(Relaxed) as usize).div_ceil(64);
        let mut left = calls;
        for (n, word) in self.bitmap(FREE).iter().enumerate().take(used).rev() {
            let mut free = word.load(Relaxed);
            while free != 0 {
                if left == 0 || !goes_on() {
                    return;
                }
                let first = free.trailing_zeros();
                let count = (free >> first).trailing_ones();
                let run = (!0 >> (64 - count)) << first;
                free &= !run;
                word.store(free, Relaxed);
                let released = &self.bitmap(RELEASED)[n];
                released.store(released.load(Relaxed) | run, Relaxed);
                self.hints[RELEASED].fetch_min(n as u32, Relaxed);
                self.free.fetch_sub(count, Relaxed);
                self.released.fetch_add(count, Relaxed);
                let frame = n * 64 + first as usize;
                let at = self.frames_base.load(Relaxed) + frame * PAGE_SIZE;
                // SAFETY: a run of frames that are free: nothing refers to their content.
                unsafe { sys::madvise(at, count as usize * PAGE_SIZE, sys::MADV_DONTNEED) };
                left -= 1;
            }
        }
    }
}

const FREE: usize = 0;
const RELEASED: usize = 1;

// SAFETY: chunks are cut one after the other from zeroed, never reused memory.
unsafe impl ChunkSource for Memory {
    fn chunk(&self) -> Option<NonNull<u8>> {
        self.chunks(1)
    }
}

/// Frames are numbered from 1, lowest free first, so that the upper end empties and can be
/// given back in long runs. Serialised by the storage's lock.
///
/// SAFETY: frame n lies at `frames_base + n * PAGE_SIZE`, below the end of the reservation, and is
/// lent to one user at a time: its bit is in neither bitmap while it is lent.
unsafe impl FrameSource for Memory {
    fn allocate(&self) -> Option<FrameIndex> {
        let words = (self.fresh.load(Relaxed) as usize).div_ceil(64);
        for (which, count) in [(FREE, &self.free), (RELEASED, &self.released)] {
            if count.load(Relaxed) == 0 {
                continue;
            }
            let hint = self.hints[which].load(Relaxed) as usize;
            for (n, word) in self.bitmap(which).iter().enumerate().take(words).skip(hint) {
                let bits = word.load(Relaxed);
                if bits != 0 {
                    word.store(bits & (bits - 1), Relaxed);
                    self.hints[which].store(n as u32, Relaxed);
                    count.fetch_sub(1, Relaxed);
                    return Some(FrameIndex(n as u32 * 64 + bits.trailing_zeros()));
                }
            }
        }
        let fresh = self.fresh.load(Relaxed);
        if fresh >= self.frames.load(Acquire) {
            return None;
        }
        self.fresh.store(fresh + 1, Relaxed);
        Some(FrameIndex(fresh))
    }

    fn free(&self, frame: FrameIndex) {
        let n = frame.0 / 64;
        let word = &self.bitmap(FREE)[n as usize];
        word.store(word.load(Relaxed) | 1 << (frame.0 % 64), Relaxed);
        self.free.fetch_add(1, Relaxed);
        self.hints[FREE].fetch_min(n, Relaxed);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        let at = self.frames_base.load(Relaxed) + frame.0 as usize * PAGE_SIZE;
        NonNull::new(at as *mut u8).expect("frames lie above the null page")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use rustix::mm::munmap;
    use std::os::unix::fs::FileExt;
    use std::vec::Vec;

    const FRAMES: u32 = 8192;

    /// As the kernel sees it.
    fn resident_frames(memory: &Memory) -> usize {
        let mut entries = [0u8; FRAMES as usize * 8];
        let first = memory.address(FrameIndex(0)).as_ptr() as usize / PAGE_SIZE;
        let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
        pagemap
            .read_exact_at(&mut entries, first as u64 * 8)
            .unwrap();
        entries
            .chunks(8)
            .filter(|entry| entry[7] & 0x80 != 0)
            .count()
    }

    /// Three of four frames are freed, none of them in whole groups: nearly all of them go back.
    #[test]
    fn frames_that_are_free_here_and_there_are_given_back() {
        let memory = Memory::new();
        memory.reserve(FRAMES as usize * PAGE_SIZE).unwrap();
        let frames: Vec<_> = (0..6400).map(|_| memory.allocate().unwrap()).collect();
        let number = |frame: FrameIndex| memory.address(frame).cast::<u32>();
        for &frame in &frames {
            // SAFETY: it was just lent to us.
            unsafe { number(frame).write(frame.0) };
        }
        assert_eq!(resident_frames(&memory), 6400);
        let (kept, freed): (Vec<_>, Vec<_>) = frames.iter().partition(|frame| frame.0 % 4 == 0);
        freed.iter().for_each(|&&frame| memory.free(frame));
        let mut rounds = 0;
        while memory.has_too_many() {
            memory.release_idle(32);
            rounds += 1;
        }
        assert!(rounds > 10, "so much under one lock: {rounds}");
        let worth = IDLE_FRAMES as usize + 6400 / IDLE_PART as usize;
        assert!(resident_frames(&memory) <= kept.len() + worth);
        assert_eq!(resident_frames(&memory), memory.backed_frames() as usize);
        for frame in kept {
            // SAFETY: it is still lent to us.
            assert_eq!(unsafe { number(*frame).read() }, frame.0);
        }
        let again: Vec<_> = (0..freed.len())
            .map(|_| memory.allocate().unwrap())
            .collect();
        let mut numbers: Vec<_> = again.iter().map(|frame| frame.0).collect();
        numbers.sort_unstable();
        assert!(
            numbers.iter().eq(freed.iter().map(|frame| &frame.0)),
            "each once"
        );
        // SAFETY: our own reservation, which nobody uses any more.
        unsafe { munmap(memory.range().start as *mut _, memory.range().len()) }.unwrap();
    }
}
