//! Frames for what is stored: pages of one area, numbered from 1, with a bit for each that is free.

use crate::machine::os::{self, Os};
use crate::memory::areas::Area;
use crate::memory::own::Memory;
use coldpress_storage::{FrameIndex, FrameSource};
use coldpress_uffd::PAGE_SIZE;
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// So many free frames, and one part in so many of all that are backed, are kept.
const IDLE_FRAMES: u32 = 256;
const IDLE_PART: u32 = 64;

/// Frames that are mapped ahead: more than a batch needs; and one part in so many of all that were ever used.
const AHEAD: u32 = 768;
const AHEAD_PART: u32 = 16;

impl<O: Os> Memory<O> {
    /// Maps frames ahead. By the reclaimer, or before there is one. `false`: there are no more.
    pub(crate) fn prepare_frames(&self) -> bool {
        let (mapped, fresh) = (
            self.frames.mapped.load(Relaxed),
            self.frames.fresh.load(Relaxed),
        );
        if fresh + AHEAD <= mapped {
            return true;
        }
        let wanted = fresh + 2 * AHEAD + fresh / AHEAD_PART;
        let wanted = wanted
            .next_multiple_of(64)
            .min(self.frames.most.load(Relaxed));
        if wanted <= mapped {
            return false;
        }
        let bits = wanted as usize / 8;
        let grown = self.areas.grow(Area::Free, bits)
            && self.areas.grow(Area::Released, bits)
            && self.areas.grow(Area::Frames, wanted as usize * PAGE_SIZE);
        if grown {
            self.frames.mapped.store(wanted, Release);
        }
        grown
    }

    fn bitmap(&self, which: usize) -> &[AtomicU64] {
        let words = self.frames.mapped.load(Acquire) as usize / 64;
        let base = self.areas.start([Area::Free, Area::Released][which]);
        // SAFETY: that many zeroed words are mapped there, and stay.
        unsafe { core::slice::from_raw_parts(base as *const AtomicU64, words) }
    }

    fn frame_address(&self, frame: usize) -> usize {
        self.areas.start(Area::Frames) + frame * PAGE_SIZE
    }

    /// Whether our memory is locked. The kernel is asked to take frame 0, which is nobody's.
    pub(crate) fn is_locked(&self) -> bool {
        let at = self.frame_address(0);
        // SAFETY: a page of ours that holds nothing.
        unsafe { O::madvise(at, PAGE_SIZE, os::MADV_DONTNEED) < 0 }
    }

    /// Frames that are backed: in use, or free and not yet released.
    pub fn backed_frames(&self) -> u32 {
        self.frames.fresh.load(Relaxed) - 1 - self.frames.released.load(Relaxed)
    }

    /// Frames that hold something.
    pub fn used_frames(&self) -> u32 {
        self.backed_frames()
            .saturating_sub(self.frames.free.load(Relaxed))
    }

    /// Free frames that are worth keeping backed: others are free again soon.
    fn worth_keeping(&self) -> u32 {
        IDLE_FRAMES + self.backed_frames() / IDLE_PART
    }

    /// Whether more frames are free than are worth keeping.
    pub fn has_too_many(&self) -> bool {
        self.frames.free.load(Relaxed) > self.worth_keeping()
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

    /// Gives all frames back, whatever they hold: in the child of a fork that has no pager.
    pub fn drop_storage(&self) {
        let used = self.frames.fresh.load(Relaxed) as usize * PAGE_SIZE;
        // SAFETY: nobody reads storage where there is no pager.
        unsafe { self.give_back(self.frame_address(0), used) };
    }

    fn release_while(&self, calls: usize, goes_on: impl Fn() -> bool) {
        let used = (self.frames.fresh.load(Relaxed) as usize).div_ceil(64);
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
                self.frames.hints[RELEASED].fetch_min(n as u32, Relaxed);
                self.frames.free.fetch_sub(count, Relaxed);
                self.frames.released.fetch_add(count, Relaxed);
                let frame = n * 64 + first as usize;
                let bytes = count as usize * PAGE_SIZE;
                // SAFETY: a run of frames that are free: nothing refers to their content.
                unsafe { self.give_back(self.frame_address(frame), bytes) };
                left -= 1;
            }
        }
    }
}

const FREE: usize = 0;
const RELEASED: usize = 1;

/// Frames are numbered from 1, lowest free first, so that the upper end empties and can be
/// given back in long runs. Serialised by the storage's lock.
///
/// SAFETY: frame n lies n pages behind the area's begin, where memory is mapped, and is
/// lent to one user at a time: its bit is in neither bitmap while it is lent.
unsafe impl<O: Os> FrameSource for Memory<O> {
    fn allocate(&self) -> Option<FrameIndex> {
        let words = (self.frames.fresh.load(Relaxed) as usize).div_ceil(64);
        for (which, count) in [(FREE, &self.frames.free), (RELEASED, &self.frames.released)] {
            if count.load(Relaxed) == 0 {
                continue;
            }
            let hint = self.frames.hints[which].load(Relaxed) as usize;
            for (n, word) in self.bitmap(which).iter().enumerate().take(words).skip(hint) {
                let bits = word.load(Relaxed);
                if bits != 0 {
                    word.store(bits & (bits - 1), Relaxed);
                    self.frames.hints[which].store(n as u32, Relaxed);
                    count.fetch_sub(1, Relaxed);
                    return Some(FrameIndex(n as u32 * 64 + bits.trailing_zeros()));
                }
            }
        }
        let fresh = self.frames.fresh.load(Relaxed);
        if fresh >= self.frames.mapped.load(Acquire) {
            return None;
        }
        self.frames.fresh.store(fresh + 1, Relaxed);
        Some(FrameIndex(fresh))
    }

    fn free(&self, frame: FrameIndex) {
        let n = frame.0 / 64;
        let word = &self.bitmap(FREE)[n as usize];
        word.store(word.load(Relaxed) | 1 << (frame.0 % 64), Relaxed);
        self.frames.free.fetch_add(1, Relaxed);
        self.frames.hints[FREE].fetch_min(n, Relaxed);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        NonNull::new(self.frame_address(frame.0 as usize) as *mut u8)
            .expect("frames lie above the null page")
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
        let memory = Memory::<crate::machine::linux::Linux>::new();
        memory.settle(1 << 30).unwrap();
        memory.reserve(FRAMES as usize * PAGE_SIZE).unwrap();
        let allocate = |n: u32| {
            assert!(
                !n.is_multiple_of(512) || memory.prepare_frames(),
                "frames ahead"
            );
            memory.allocate().unwrap()
        };
        let frames: Vec<_> = (0..6400).map(allocate).collect();
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
        for area in [Area::Stacks, Area::Staging, Area::Tables, Area::Frames] {
            let (start, bytes) = (memory.areas.start(area), memory.areas.mapped(area));
            // SAFETY: our own memory, which nobody uses any more.
            unsafe { munmap(start as *mut _, bytes) }.unwrap();
        }
    }
}
