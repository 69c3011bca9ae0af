//! Areas of address space that grow in place: what the pager's memory is made of.
//!
//! ```text
//!  home                                                                     home + its size
//! │ stacks ▒▒▒▒│   │ staging │   │ bitmaps ▒▒│  │ workplace ▒│  │ tier ▒│ │ tables ▒▒▒│  │ frames ▒▒▒▒▒▒ │
//! ```
//!
//! Only what is drawn solid is mapped; the rest is a part of the address space in which nobody else maps anything of
//! his own accord: the *home* lies at random between where programs are loaded and where the kernel puts what is mapped
//! without an address. An area begins with one `mmap` and grows by `mremap`, which takes over how it was advised
//! (left out of core files, no huge pages), is one call, and cannot replace what somebody else has mapped there.
//!
//! * I1: an area is one mapping, readable and writable, from its place up to what `mapped` says. Nothing of it is
//!   ever unmapped.
//! * I2: what is mapped is little more than what is used: limits of the address space and of data, strict accounting of
//!   memory (`vm.overcommit_memory=2`) and `mlockall` count what is mapped, not what is used.

use crate::machine::linux::Linux;
use crate::machine::os::Os;
use crate::machine::ranked_lock::RankedLock;
use crate::machine::ranks;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::process::{Resource, getrlimit};

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

/// An area: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Area {
    /// Stacks of the pager's threads.
    Stacks,
    /// Where pages are moved to.
    Staging,
    /// Which frames are free, and still backed.
    Free,
    /// Which frames are free, and were given back.
    Released,
    /// What the threads work with.
    Workplace,
    /// Tables and buffers of what is written back.
    WriteBack,
    /// Chunks for tables.
    Tables,
    /// Frames for what is stored.
    Frames,
}

const AREAS: usize = 8;
/// Where each area begins in the home, and what it may grow to.
const PLACES: [(usize, usize); AREAS] = [
    (0, 16 * MIB),
    (16 * MIB, 16 * MIB),
    (64 * MIB, 32 * MIB),
    (128 * MIB, 32 * MIB),
    (256 * MIB, 256 * MIB),
    (512 * MIB, 512 * MIB),
    (GIB, 15 * GIB),
    (16 * GIB, 1024 * GIB),
];
/// Where frames begin in the home.
const BEFORE_FRAMES: usize = 16 * GIB;

/// A part of the address space in which a home may lie, somewhere.
struct Country {
    first: usize,
    end: usize,
    /// The most that frames may grow to in it.
    most_storage: usize,
}

/// Directly below programs without a fixed place, which begin at 0x5555_5555_4000 at the lowest. The run-time libraries of
/// ThreadSanitizer and MemorySanitizer want most of the address space for their shadow memory and leave this
/// to the program.
const USUAL: Country = Country {
    first: 0x5500_0000_0000,
    end: 0x5555_5500_0000,
    most_storage: 240 * GIB,
};
/// For machines with more memory. Below are programs with a fixed place, heaps of languages that like round addresses,
/// and the kernel's first choice where the stack is unlimited.
const LARGE: Country = Country {
    first: 0x3000_0000_0000,
    end: 0x5000_0000_0000,
    most_storage: 1024 * GIB,
};
const HOME_STEP: usize = 2 * MIB;

impl Country {
    fn home_bytes(&self) -> usize {
        BEFORE_FRAMES + self.most_storage
    }

    fn home(&self, random: usize, attempt: usize) -> usize {
        let places = (self.end - self.first - self.home_bytes()) / HOME_STEP;
        self.first + random.wrapping_add(attempt * 4096) % places * HOME_STEP
    }
}
const TRIES: usize = 8;

/// Of a limit of the address space or of data the pager maps no more than this part, but for what it cannot do without.
const PART_OF_LIMIT: u64 = 8;
const LEAST: usize = 24 * MIB;

/// The areas.
pub(crate) struct Areas<O: Os = Linux> {
    home: AtomicUsize,
    home_bytes: AtomicUsize,
    mapped: [AtomicUsize; AREAS],
    /// Bytes that may be mapped in all.
    most: AtomicUsize,
    /// Memory of ours was found locked: what comes is unlocked too.
    locked: AtomicBool,
    growing: lock_api::Mutex<RankedLock<{ ranks::GROWING }, O>, ()>,
}

impl<O: Os> Areas<O> {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            home: AtomicUsize::new(0),
            home_bytes: AtomicUsize::new(0),
            mapped: [const { AtomicUsize::new(0) }; AREAS],
            most: AtomicUsize::new(usize::MAX),
            locked: AtomicBool::new(false),
            growing: lock_api::Mutex::const_new(lock_api::RawMutex::INIT, ()),
        }
    }

    /// Finds a home, in which `bytes` of the first area are mapped, for storage of so many bytes at the most.
    pub(crate) fn settle(&self, area: Area, bytes: usize, storage_bytes: usize) -> bool {
        self.most.store(most(), Relaxed);
        let country = match storage_bytes <= USUAL.most_storage {
            true => USUAL,
            false => LARGE,
        };
        self.home_bytes.store(country.home_bytes(), Relaxed);
        (0..TRIES).any(|attempt| {
            let home = country.home(O::random() as usize, attempt);
            self.home.store(home, Relaxed);
            self.grow(area, bytes)
        })
    }

    /// The whole home, mapped or not; empty before there is one.
    pub(crate) fn home(&self) -> AddressRange {
        match self.home.load(Relaxed) {
            0 => AddressRange { start: 0, end: 0 },
            home => AddressRange::new(home, self.home_bytes.load(Relaxed)),
        }
    }

    /// Where an area begins.
    pub(crate) fn start(&self, area: Area) -> usize {
        self.home.load(Relaxed) + PLACES[area as usize].0
    }

    /// What an area may grow to.
    pub(crate) fn most(&self, area: Area) -> usize {
        PLACES[area as usize].1
    }

    /// Bytes of an area that are mapped.
    pub(crate) fn mapped(&self, area: Area) -> usize {
        self.mapped[area as usize].load(Acquire)
    }

    /// Grows an area to `bytes` at least. `false`: no address space, or no memory, is left for it.
    pub(crate) fn grow(&self, area: Area, bytes: usize) -> bool {
        let bytes = bytes.next_multiple_of(PAGE_SIZE);
        if bytes <= self.mapped(area) {
            return true;
        }
        let _growing = self.growing.lock();
        let (mapped, start) = (self.mapped(area), self.start(area));
        if bytes <= mapped {
            return true;
        }
        let all: usize = self.mapped.iter().map(|bytes| bytes.load(Relaxed)).sum();
        if bytes > PLACES[area as usize].1 || all + bytes - mapped > self.most.load(Relaxed) {
            return false;
        }
        let grown = match mapped {
            0 => O::map(start, bytes),
            _ => O::lengthen(start + mapped, bytes - mapped),
        };
        if grown {
            if self.locked.load(Relaxed) {
                O::unlock(start + mapped, bytes - mapped);
            }
            self.mapped[area as usize].store(bytes, Release);
        }
        grown
    }

    /// Unlocks what the program has locked of ours together with all of its own memory (`mlockall` behind libc's back):
    /// the kernel neither moves pages between locked memory and other, nor takes locked memory back.
    pub(crate) fn unlock(&self) {
        self.locked.store(true, Relaxed);
        for (mapped, (at, _)) in self.mapped.iter().zip(PLACES) {
            let bytes = mapped.load(Acquire);
            if bytes > 0 {
                O::unlock(self.home.load(Relaxed) + at, bytes);
            }
        }
    }

    /// Nobody grows an area: in the child of a fork.
    pub(crate) fn reset(&self) {
        // SAFETY: the child has one thread, and what was mapped was noted or can be mapped again.
        unsafe { self.growing.raw().reset() };
    }
}

/// What may be mapped in all, in view of the limits that the program begins with.
fn most() -> usize {
    let limits = [Resource::As, Resource::Data];
    let least = limits.iter().filter_map(|&r| getrlimit(r).current).min();
    least.map_or(usize::MAX, |bytes| {
        ((bytes / PART_OF_LIMIT) as usize).max(LEAST)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_lie_one_behind_the_other() {
        let ends = PLACES.iter().map(|(at, most)| at + most);
        let starts = PLACES.iter().skip(1).map(|(at, _)| *at);
        assert!(ends.zip(starts).all(|(end, start)| end <= start));
        let (at, most) = PLACES[AREAS - 1];
        assert_eq!(at, BEFORE_FRAMES);
        assert_eq!(most, LARGE.most_storage);
        for country in [USUAL, LARGE] {
            let last = country.end - country.home_bytes();
            assert!((0..100).all(|n| (country.first..last).contains(&country.home(7 * n, n))));
        }
    }

    #[test]
    fn an_area_grows_in_place_and_no_further_than_it_may() {
        let areas = Areas::<Linux>::new();
        assert!(areas.home().is_empty());
        assert!(areas.settle(Area::Stacks, 1, GIB));
        assert_eq!(areas.mapped(Area::Stacks), PAGE_SIZE);
        let at = areas.start(Area::Stacks) as *mut u8;
        // SAFETY: mapped above, and nobody else's.
        unsafe { at.write(7) };
        assert!(areas.grow(Area::Stacks, 5 * PAGE_SIZE));
        // SAFETY: as above.
        unsafe {
            at.add(5 * PAGE_SIZE - 1).write(8);
            assert_eq!(at.read(), 7);
        }
        assert!(!areas.grow(Area::Stacks, 17 * MIB));
        assert!(areas.grow(Area::Frames, 8 * PAGE_SIZE));
        areas.most.store(areas.mapped(Area::Frames), Relaxed);
        assert!(!areas.grow(Area::Frames, 9 * PAGE_SIZE));
        assert!(areas.grow(Area::Frames, 8 * PAGE_SIZE), "what there is");
        for area in [Area::Stacks, Area::Frames] {
            let (start, bytes) = (areas.start(area), areas.mapped(area));
            // SAFETY: mappings of this test.
            unsafe { rustix::mm::munmap(start as *mut _, bytes) }.unwrap();
        }
    }

    #[test]
    fn what_another_has_mapped_is_not_replaced() {
        let areas = Areas::<Linux>::new();
        assert!(areas.settle(Area::Stacks, PAGE_SIZE, 512 * GIB));
        let behind = areas.start(Area::Stacks) + 2 * PAGE_SIZE;
        assert!(Linux::map(behind, PAGE_SIZE));
        assert!(areas.grow(Area::Stacks, 2 * PAGE_SIZE));
        assert!(!areas.grow(Area::Stacks, 3 * PAGE_SIZE));
        assert!(!Linux::map(behind, PAGE_SIZE));
        // SAFETY: mappings of this test.
        unsafe { rustix::mm::munmap((behind - 2 * PAGE_SIZE) as *mut _, 3 * PAGE_SIZE) }.unwrap();
    }
}
