//! Chunks: where pages come from, and when the kernel may have them.
//!
//! A chunk is a range of pages of one backing. Free pages form a list through the keys of their
//! records, so that nothing is allocated after a cache is made.

use crate::PAGE_BYTES;
use crate::budget::Budget;
use crate::options::Backing;
use crate::slot::Slot;
use crate::tier::Tier;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The most heat a page can have. Four halvings make the hottest page cold.
pub(crate) const HOTTEST: u8 = 15;

/// Heat from which a page of a sealed chunk is kept from the kernel: hit four times, where the
/// original's benchmark touches cold entries twice and hot ones eight times.
pub(crate) const HOT: u8 = 4;

/// A chunk, under the room lock.
pub(crate) struct Chunk {
    pub first: u32,
    pub pages: u32,
    pub backing: Backing,
    /// Pages from this one on (counted within the chunk) were never used.
    used_up_to: u32,
    /// First of the free pages, and one; 0 is none.
    free: u64,
    free_pages: u32,
}

/// What is known of a chunk without the room lock.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct ChunkState {
    /// Writers that hold a page. Grows under the room lock only (C2).
    pub writers: AtomicU32,
    /// Pages locked for write since the chunk was sealed: the kernel cannot take them.
    pub written: AtomicU32,
    /// Pages kept from the kernel since then.
    pub kept: AtomicU32,
    /// No page is free. Under the room lock; read without it as a hint.
    pub full: AtomicBool,
}

/// What the room lock guards, beside states and words of the index.
pub(crate) struct Room {
    pub chunks: Vec<Chunk>,
    /// The chunk that is being filled.
    pub current: usize,
    /// Evictions until all heat is halved.
    pub until_cooling: usize,
    /// What is left of the last eviction.
    pub draining: Option<Draining>,
    /// Where evicted entries stay, compressed.
    pub tier: Option<Tier>,
    /// How much memory may be used, and is.
    pub budget: Budget,
    /// The page that small entries go to.
    pub small: SmallRoom,
    /// For ties, by xorshift.
    random: u64,
    /// What the kernel says of a chunk's pages.
    pub residency: Vec<u8>,
    /// Counters, see [`Stats`](crate::Stats).
    pub evicted: u64,
    pub reused: u64,
    pub displaced: u64,
    pub seals: u64,
    pub refused_seals: u64,
}

/// An eviction that is done in steps.
#[derive(Clone)]
pub(crate) struct Draining {
    pub chunk: usize,
    /// Pages still to be looked at.
    pub slots: Range<u32>,
    /// Heat up to which entries go.
    pub bound: u8,
    /// Give pages back to the kernel.
    pub give_back: bool,
}

/// What the room lock guards of small entries, beside the index and the records of their pages.
#[derive(Default)]
pub(crate) struct SmallRoom {
    /// The page being filled.
    pub current: Option<u32>,
    /// Its granules in use.
    pub used: u32,
    /// Pages with small entries, and entries.
    pub pages: u64,
    pub entries: u64,
    /// Counters, see [`Stats`](crate::Stats).
    pub displaced: u64,
    pub moved: u64,
}

/// Evictions between two halvings of all heat: as many as exchange the whole content, at half a
/// chunk each. Hit rates of `evicts_better_than_random_chunks` (hot and cold, cyclic, moving) with an eighth, a half, one and
/// two of this: .519 .190 .515 · .539 .186 .515 · .539 .370 .502 · .540 .373 .490; random chunks
/// .430 .205 .425.
pub(crate) fn cooling_period(chunks: usize) -> usize {
    2 * chunks
}

impl Chunk {
    pub fn new(first: u32, pages: u32, backing: Backing) -> Chunk {
        Chunk {
            first,
            pages,
            backing,
            used_up_to: 0,
            free: 0,
            free_pages: 0,
        }
    }

    pub fn slots(&self) -> Range<u32> {
        self.first..self.first + self.used_up_to
    }

    /// Pages that can be had without evicting anything.
    pub fn available(&self) -> u32 {
        self.pages - self.used_up_to + self.free_pages
    }

    pub fn take(&mut self, slots: &[Slot]) -> Option<u32> {
        if self.free != 0 {
            let slot = (self.free - 1) as u32;
            self.free = slots[slot as usize].key.load(Relaxed);
            self.free_pages -= 1;
            return Some(slot);
        }
        if self.used_up_to == self.pages {
            return None;
        }
        self.used_up_to += 1;
        Some(self.first + self.used_up_to - 1)
    }

    /// The first of the free pages, beside those never used.
    pub fn first_free(&self) -> Option<u32> {
        self.free.checked_sub(1).map(|slot| slot as u32)
    }

    /// The free page after another.
    pub fn free_after(&self, slot: u32, slots: &[Slot]) -> Option<u32> {
        let next = slots[slot as usize].key.load(Relaxed);
        next.checked_sub(1).map(|slot| slot as u32)
    }

    pub fn give(&mut self, slot: u32, slots: &[Slot]) {
        slots[slot as usize].key.store(self.free, Relaxed);
        self.free = u64::from(slot) + 1;
        self.free_pages += 1;
    }
}

impl Room {
    pub fn new(chunks: Vec<Chunk>, pages_a_chunk: u32, tier: Option<Tier>, budget: Budget) -> Room {
        Room {
            until_cooling: cooling_period(chunks.len()),
            chunks,
            current: 0,
            draining: None,
            tier,
            budget,
            small: SmallRoom::default(),
            random: 0x9e37_79b9_7f4a_7c15,
            residency: vec![0; pages_a_chunk as usize],
            evicted: 0,
            reused: 0,
            displaced: 0,
            seals: 0,
            refused_seals: 0,
        }
    }

    /// Pages without an entry.
    pub fn free_pages(&self) -> usize {
        let pages = self.chunks.iter().map(|chunk| chunk.available() as usize);
        pages.sum()
    }

    pub fn one_of(&mut self, ways: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(ways)
    }
}

impl Room {
    fn tier_bytes(&self) -> usize {
        self.tier.as_ref().map_or(0, |tier| tier.bytes())
    }

    /// Bytes of held pages and of the tier.
    pub fn used_bytes(&self) -> usize {
        self.budget.held_pages * PAGE_BYTES + self.tier_bytes()
    }

    /// Whether a page may be written.
    pub fn may_hold(&mut self, slot: u32) -> bool {
        let tier_bytes = self.tier_bytes();
        self.budget.hold(slot, tier_bytes)
    }
}
