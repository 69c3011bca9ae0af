//! From an address to its segment: the address space in windows of 32 MiB.
//!
//! Each window that ever had a managed page is one segment, for good; page `n` of the segment is page
//! `n` of the window. Beside the segment a window keeps what the kernel knows of it: which pages are
//! registered, which are about to be dropped, and how often each was evicted (counted to 255, for `status` and tests).
//!
//! Invariant I1: a page's `registered` bit is set only inside the gate and cleared only while
//! the gate is closed; while one is inside the gate, a set bit and a successful move mean that
//! the page belonged to the registered mapping (see `gate` in ARCHITECTURE.md).
//!
//! Invariant I2: a page's `dropping` bit is set with the gate closed, and cleared inside it or with it closed, when the page
//! has been seen missing. A page that has it is not tracked: its thread was let go by the event, and drops it at any moment.
//!
//! Invariant I3: a page's `restored` bit is set inside the gate, under the lock of the journal's end, and cleared with the
//! gate closed. It says something of the fork whose number the window has beside it, and nothing of any other.
//!
//! A page's `unshared` bit says something of one fork as well. Reclaim alone sets it, outside the gate: at worst a page is
//! not tried again before the next fork.
//!
//! Invariant I4: a page's `unproven` bit is set where the kernel could not tell whether the page is registered, since an
//! event was unread, or was not asked yet, and cleared inside the gate when the kernel has told. Such a page may be
//! registered, or marked (`MADV_DONTFORK`), or both, whatever else is known of it.
//!
//! Invariant I5: a page's `arrived` bit is set with the gate closed, as an event tells that memory has moved there. It is
//! cleared with the gate closed, as one tells that it is unmapped, or inside it when no change waits to be told.

use crate::machine::os::Os;
use crate::memory::own::Memory;
use crate::space::hysteresis::Hysteresis;
use coldpress_arena::{Link, Pool, Zeroable};
use coldpress_engine::{LEAF_PAGES, SEGMENT_PAGES, SegmentId};
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Bytes in a window.
pub const WINDOW_BYTES: usize = SEGMENT_PAGES as usize * PAGE_SIZE;

/// First address beyond what a process gets without asking for it by name.
pub const ADDRESS_LIMIT: usize = 1 << 47;

const CHUNKS: usize = (SEGMENT_PAGES / LEAF_PAGES) as usize;

/// What is known of one window besides its segment.
#[repr(C)]
pub struct Window {
    base: AtomicUsize,
    /// One bit a page: registered with the pager's userfaultfd.
    pub registered: [AtomicU64; CHUNKS],
    /// One bit a page: an event has told that it is about to be dropped, and it was not seen missing since.
    dropping: [AtomicU64; CHUNKS],
    /// One bit a page: whether it is registered could not be told.
    unproven: [AtomicU64; CHUNKS],
    /// One bit a page: it has moved there.
    arrived: [AtomicU64; CHUNKS],
    /// Pages that were put in place during a fork, while the entry had to stay as it is.
    restored: OfFork,
    /// Pages that were made this process's own since a fork.
    unshared: OfFork,
    /// How willingly each chunk is registered and unregistered.
    hysteresis: [Hysteresis; CHUNKS],
    /// How often each page was evicted, as far as a byte counts.
    evictions: [AtomicU8; SEGMENT_PAGES as usize],
    link: AtomicU32,
}

/// Pages of a window of which something holds since one fork.
#[repr(C)]
struct OfFork {
    /// One bit a page.
    pages: [AtomicU64; CHUNKS],
    /// The number of the fork.
    fork: AtomicUsize,
}

impl OfFork {
    fn has(&self, index: u32, fork: usize) -> bool {
        let word = &self.pages[(index / LEAF_PAGES) as usize];
        self.fork.load(Relaxed) == fork && word.load(Relaxed) & 1 << (index % LEAF_PAGES) != 0
    }

    fn set(&self, index: u32, fork: usize) {
        if self.fork.load(Relaxed) != fork {
            self.pages.iter().for_each(|word| word.store(0, Relaxed));
            self.fork.store(fork, Relaxed);
        }
        let word = &self.pages[(index / LEAF_PAGES) as usize];
        word.fetch_or(1 << (index % LEAF_PAGES), Relaxed);
    }
}

// SAFETY: atomics; zero is valid.
unsafe impl Zeroable for Window {}

impl Link for Window {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl Window {
    /// First address.
    pub fn base(&self) -> usize {
        self.base.load(Relaxed)
    }

    /// Address of page `index`, or the end of the window.
    pub fn address(&self, index: u32) -> usize {
        debug_assert!(index <= SEGMENT_PAGES, "page {index} of a window");
        self.base() + index as usize * PAGE_SIZE
    }

    /// Index of the page of `address`, which lies in the window or is its end.
    pub fn index_of(&self, address: usize) -> u32 {
        debug_assert!(
            (self.base()..=self.base() + WINDOW_BYTES).contains(&address),
            "{address:#x} in the window at {:#x}",
            self.base()
        );
        ((address - self.base()) / PAGE_SIZE) as u32
    }

    /// Counts an eviction of page `index`.
    pub fn count_eviction(&self, index: u32) {
        let count = &self.evictions[index as usize];
        count.store(count.load(Relaxed).saturating_add(1), Relaxed);
    }

    /// Least evictions of a page that was evicted at all.
    pub fn least_evictions(&self) -> Option<u8> {
        let counts = self.evictions.iter().map(|c| c.load(Relaxed));
        counts.filter(|&n| n > 0).min()
    }

    /// Pages that are registered.
    pub fn registered_pages(&self) -> u64 {
        let bits = self.registered.iter().map(|w| w.load(Relaxed).count_ones());
        bits.map(u64::from).sum()
    }

    /// Whether page `index` is registered.
    pub fn is_registered(&self, index: u32) -> bool {
        let word = self.registered[(index / LEAF_PAGES) as usize].load(Relaxed);
        word & 1 << (index % LEAF_PAGES) != 0
    }

    /// The first page from `index` on, before `end`, that is registered; `end` where there is none.
    pub fn next_registered(&self, index: u32, end: u32) -> u32 {
        next_by(&self.registered, index, end, |registered| registered)
    }

    /// The first page from `index` on, before `end`, that is not registered; `end` where there is none.
    pub fn next_unregistered(&self, index: u32, end: u32) -> u32 {
        next_by(&self.registered, index, end, |registered| !registered)
    }

    /// The registered bits of the chunk of page `index`.
    pub fn registered_in_chunk(&self, index: u32) -> u64 {
        self.registered[(index / LEAF_PAGES) as usize].load(Relaxed)
    }

    /// The pages of the chunk of page `index` that are about to be dropped.
    pub fn dropping_in_chunk(&self, index: u32) -> u64 {
        self.dropping[(index / LEAF_PAGES) as usize].load(Relaxed)
    }

    /// Whether an event has told that page `index` is about to be dropped, and it was not seen missing since.
    pub fn is_dropping(&self, index: u32) -> bool {
        self.dropping_in_chunk(index) & 1 << (index % LEAF_PAGES) != 0
    }

    /// Pages `first..end` are about to be dropped.
    pub fn set_dropping(&self, first: u32, end: u32) {
        for (word, mask) in words(&self.dropping, first, end) {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// Pages `first..end` are missing, or other memory lies where they were.
    pub fn clear_dropping(&self, first: u32, end: u32) {
        clear_where_set(&self.dropping, first, end);
    }

    /// Whether the kernel could not tell whether page `index` is registered.
    pub fn is_unproven(&self, index: u32) -> bool {
        let word = self.unproven[(index / LEAF_PAGES) as usize].load(Relaxed);
        word & 1 << (index % LEAF_PAGES) != 0
    }

    /// The first page from `index` on, before `end`, that is unproven; `end` where there is none.
    pub fn next_unproven(&self, index: u32, end: u32) -> u32 {
        next_by(&self.unproven, index, end, |unproven| unproven)
    }

    /// The first page from `index` on, before `end`, that is not unproven; `end` where there is none.
    pub fn next_proven(&self, index: u32, end: u32) -> u32 {
        next_by(&self.unproven, index, end, |unproven| !unproven)
    }

    /// The kernel could not tell whether pages `first..end` are registered (I4).
    pub fn set_unproven(&self, first: u32, end: u32) {
        for (word, mask) in words(&self.unproven, first, end) {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// The kernel has told whether pages `first..end` are registered (I4).
    pub fn clear_unproven(&self, first: u32, end: u32) {
        clear_where_set(&self.unproven, first, end);
    }

    /// The first page from `index` on, before `end`, that has moved there; `end` where there is none.
    pub fn next_arrived(&self, index: u32, end: u32) -> u32 {
        next_by(&self.arrived, index, end, |arrived| arrived)
    }

    /// The first page from `index` on, before `end`, that has not moved there; `end` where there is none.
    pub fn next_not_arrived(&self, index: u32, end: u32) -> u32 {
        next_by(&self.arrived, index, end, |arrived| !arrived)
    }

    /// Pages `first..end` have moved there (I5).
    pub fn set_arrived(&self, first: u32, end: u32) {
        for (word, mask) in words(&self.arrived, first, end) {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// Pages `first..end` are unmapped (I5).
    pub fn clear_arrived(&self, first: u32, end: u32) {
        clear_where_set(&self.arrived, first, end);
    }

    /// Whether page `index` was put in place during this fork.
    pub fn is_restored(&self, index: u32, fork: usize) -> bool {
        self.restored.has(index, fork)
    }

    /// Page `index` was put in place during this fork (I3).
    pub fn set_restored(&self, index: u32, fork: usize) {
        self.restored.set(index, fork);
    }

    /// Other memory lies where pages `first..end` were (I3).
    pub fn forget_restored(&self, first: u32, end: u32) {
        clear_where_set(&self.restored.pages, first, end);
    }

    /// Whether page `index` was made this process's own since this fork.
    pub fn is_unshared(&self, index: u32, fork: usize) -> bool {
        self.unshared.has(index, fork)
    }

    /// Page `index` was made this process's own since this fork.
    pub fn set_unshared(&self, index: u32, fork: usize) {
        self.unshared.set(index, fork);
    }

    /// How willingly the chunk of page `index` is registered and unregistered.
    pub fn hysteresis(&self, index: u32) -> &Hysteresis {
        &self.hysteresis[(index / LEAF_PAGES) as usize]
    }

    /// The words of the registered bits of pages `first..end`, with the bits that are theirs.
    fn words(&self, first: u32, end: u32) -> impl Iterator<Item = (&AtomicU64, u64)> {
        words(&self.registered, first, end)
    }

    /// Whether all of the pages `first..end` are registered.
    pub fn are_registered(&self, first: u32, end: u32) -> bool {
        let mut words = self.words(first, end);
        words.all(|(word, mask)| word.load(Relaxed) & mask == mask)
    }

    /// Sets the registered bits of pages `first..end`.
    pub fn set_registered(&self, first: u32, end: u32) {
        for (word, mask) in self.words(first, end) {
            word.fetch_or(mask, Relaxed);
        }
        debug_assert!(
            self.are_registered(first, end),
            "nobody clears bits inside the gate (I1)"
        );
    }

    /// Clears the registered bits of pages `first..end`.
    pub fn clear_registered(&self, first: u32, end: u32) {
        for (word, mask) in self.words(first, end) {
            word.fetch_and(!mask, Relaxed);
        }
    }
}

/// Clears the bits of pages `first..end` of a bitmap of which hardly any are set: no word is written in vain.
fn clear_where_set(map: &[AtomicU64; CHUNKS], first: u32, end: u32) {
    for (word, mask) in words(map, first, end) {
        if word.load(Relaxed) & mask != 0 {
            word.fetch_and(!mask, Relaxed);
        }
    }
}

/// The first page from `index` on, before `end`, whose bit is set in what `of` makes of a word of a bitmap of pages.
fn next_by(map: &[AtomicU64; CHUNKS], mut index: u32, end: u32, of: impl Fn(u64) -> u64) -> u32 {
    while index < end {
        let word = of(map[(index / LEAF_PAGES) as usize].load(Relaxed));
        let rest = word >> (index % LEAF_PAGES);
        if rest != 0 {
            return end.min(index + rest.trailing_zeros());
        }
        index += LEAF_PAGES - index % LEAF_PAGES;
    }
    end
}

/// The words of a bitmap of pages for pages `first..end`, with the bits that are theirs.
fn words(
    map: &[AtomicU64; CHUNKS],
    first: u32,
    end: u32,
) -> impl Iterator<Item = (&AtomicU64, u64)> {
    let mut index = first;
    core::iter::from_fn(move || {
        if index >= end {
            return None;
        }
        let chunk_end = (index - index % LEAF_PAGES + LEAF_PAGES).min(end);
        let mask = (!0u64 >> (64 - (chunk_end - index))) << (index % LEAF_PAGES);
        let word = &map[(index / LEAF_PAGES) as usize];
        index = chunk_end;
        Some((word, mask))
    })
}

/// All windows.
pub struct Windows {
    pool: Pool<Window>,
    count: AtomicU32,
}

/// A part of an address range that lies in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First address of the window.
    pub base: usize,
    /// First page.
    pub first: u32,
    /// First page behind the part.
    pub end: u32,
}

/// Cuts a range, rounded out to pages, at the borders of windows.
pub fn parts(range: AddressRange) -> impl Iterator<Item = Part> {
    let AddressRange { start: mut at, end } = range.whole_pages();
    let end = end.min(ADDRESS_LIMIT);
    core::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let base = at - at % WINDOW_BYTES;
        let stop = end.min(base + WINDOW_BYTES);
        let part = Part {
            base,
            first: ((at - base) / PAGE_SIZE) as u32,
            end: ((stop - base) / PAGE_SIZE) as u32,
        };
        at = stop;
        Some(part)
    })
}

/// A range without the parts at its start for which `skip` holds.
pub fn skip_parts(range: AddressRange, skip: impl Fn(&Part) -> bool) -> AddressRange {
    let kept = parts(range).find(|part| !skip(part));
    AddressRange {
        start: kept.map_or(range.end, |part| {
            part.base + part.first as usize * PAGE_SIZE
        }),
        end: range.end,
    }
}

impl Windows {
    /// No windows.
    pub const fn new() -> Self {
        Self {
            pool: Pool::new(),
            count: AtomicU32::new(0),
        }
    }

    /// The window of `address`, if it has one.
    pub fn find<O: Os>(&self, memory: &Memory<O>, address: usize) -> Option<SegmentId> {
        match memory.window_slot(address)?.load(Acquire) {
            0 => None,
            id => Some(id),
        }
    }

    /// The window with a number.
    pub fn get(&self, id: SegmentId) -> &Window {
        self.pool.get(id)
    }

    /// All windows and their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentId, &Window)> {
        (1..=self.count.load(Acquire)).map(|id| (id, self.pool.get(id)))
    }

    /// Enters a new window for `address`; `id` is its segment. The caller serialises.
    pub fn insert<O: Os>(&self, memory: &Memory<O>, address: usize, id: SegmentId) -> bool {
        let Some(slot) = memory.make_window_slot(address) else {
            return false;
        };
        debug_assert!(
            id != 0 && slot.load(Relaxed) == 0,
            "one window for an address, for good"
        );
        if !self.pool.reserve(memory, 1) || self.pool.take() != Some(id) {
            return false;
        }
        self.pool
            .get(id)
            .base
            .store(address - address % WINDOW_BYTES, Relaxed);
        self.count.store(id, Release);
        slot.store(id, Release);
        true
    }

    /// Bytes of tables touched.
    pub fn touched_bytes(&self) -> usize {
        self.pool.touched_bytes()
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Story: a page was put in place during a fork, written to, and dropped by an `madvise` whose event had been read
    /// before the fork. The next touch found what was stored, from before the write. Found by the simulation.
    #[test]
    fn a_page_is_restored_in_one_fork_only() {
        let mut pages = std::vec![0u64; size_of::<Window>().div_ceil(8)];
        // SAFETY: zero is a valid window, and the memory is large enough and aligned.
        let window = unsafe { &*pages.as_mut_ptr().cast::<Window>() };
        window.set_restored(70, 1);
        window.set_restored(71, 1);
        assert!(window.is_restored(70, 1) && !window.is_restored(69, 1));
        assert!(!window.is_restored(70, 2), "another fork");
        window.set_restored(5, 2);
        assert!(window.is_restored(5, 2) && !window.is_restored(70, 2));
        window.forget_restored(0, 64);
        assert!(!window.is_restored(5, 2), "something has moved there");
    }

    #[test]
    fn ranges_are_cut_at_window_borders() {
        let range = AddressRange {
            start: WINDOW_BYTES - PAGE_SIZE,
            end: 2 * WINDOW_BYTES + PAGE_SIZE,
        };
        let cut: Vec<Part> = parts(range).collect();
        assert_eq!(cut.len(), 3);
        assert_eq!(
            (cut[0].first, cut[0].end),
            (SEGMENT_PAGES - 1, SEGMENT_PAGES)
        );
        assert_eq!((cut[1].first, cut[1].end), (0, SEGMENT_PAGES));
        assert_eq!((cut[2].base, cut[2].end), (2 * WINDOW_BYTES, 1));
    }

    /// Story: a mutex is smaller than a page and has no pages by division. What it lies on was excluded, and not brought
    /// back where it was being taken in that moment: 5 of 250 runs of `hostile_futex.c`, ten at a time.
    #[test]
    fn a_page_of_which_a_part_is_meant_is_meant() {
        let cut = |start, end| -> Vec<(u32, u32)> {
            let cut = parts(AddressRange { start, end });
            cut.map(|part| (part.first, part.end)).collect()
        };
        let page = WINDOW_BYTES + 7 * PAGE_SIZE;
        assert_eq!(cut(page, page + 40), [(7, 8)]);
        assert_eq!(cut(page + 40, page + 80), [(7, 8)]);
        assert_eq!(cut(page - 1, page + 1), [(6, 8)]);
        assert_eq!(cut(page, page), []);
        let border = 2 * WINDOW_BYTES;
        assert_eq!(
            cut(border - 1, border + 1),
            [(SEGMENT_PAGES - 1, SEGMENT_PAGES), (0, 1)]
        );
    }

    #[test]
    fn parts_at_the_start_are_skipped() {
        let range = AddressRange {
            start: WINDOW_BYTES + PAGE_SIZE,
            end: 4 * WINDOW_BYTES - PAGE_SIZE,
        };
        let left = |known: &[usize]| {
            let left = skip_parts(range, |part| known.contains(&(part.base / WINDOW_BYTES)));
            assert_eq!(left.end, range.end);
            left.start
        };
        assert_eq!(left(&[]), range.start);
        assert_eq!(left(&[2, 3]), range.start);
        assert_eq!(left(&[1]), 2 * WINDOW_BYTES);
        assert_eq!(left(&[1, 3]), 2 * WINDOW_BYTES);
        assert_eq!(left(&[1, 2]), 3 * WINDOW_BYTES);
        assert_eq!(left(&[1, 2, 3]), range.end);
    }

    #[test]
    fn registered_pages_are_seen_in_ranges() {
        // SAFETY: zero is valid (`Zeroable`).
        let window = unsafe { std::boxed::Box::<Window>::new_zeroed().assume_init() };
        window.set_registered(60, 200);
        window.clear_registered(130, 131);
        for first in 50..210 {
            for end in first..=210 {
                let each = (first..end).all(|index| window.is_registered(index));
                assert_eq!(window.are_registered(first, end), each, "{first}..{end}");
            }
        }
        assert_eq!(window.registered_pages(), 139);
        for (index, next) in [(0, 60), (130, 131), (200, 210), (150, 150)] {
            assert_eq!(window.next_registered(index, 210), next);
        }
        for (index, next) in [(60, 130), (131, 200)] {
            assert_eq!(window.next_unregistered(index, 210), next);
        }
    }
}
