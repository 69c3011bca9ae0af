//! Chunks: where pages come from, and when the kernel may have them.
//!
//! A chunk is a range of pages of one backing. Free pages form a list through the keys of their
//! records, so that nothing is allocated after a cache is made.

use crate::budget::Budget;
use crate::cache::Cache;
use crate::error::Error;
use crate::evict::{Draining, cooling_period};
use crate::options::Backing;
use crate::order::DEFAULT_COST;
use crate::racy;
use crate::region::Advice;
use crate::slot::Slot;
use crate::small::SmallRoom;
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
    full: AtomicBool,
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
    fn available(&self) -> u32 {
        self.pages - self.used_up_to + self.free_pages
    }

    fn take(&mut self, slots: &[Slot]) -> Option<u32> {
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

    fn give(&mut self, slot: u32, slots: &[Slot]) {
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

impl Cache {
    /// A page for `key`, which has none; closed, and in the index.
    pub(crate) fn take_page(&self, room: &mut Room, key: u64) -> Result<u32, Error> {
        let slot = self.take_any(room).ok_or(Error::NoRoom)?;
        self.set_cost_of_page(slot, DEFAULT_COST);
        self.slots[slot as usize].key.store(key, Relaxed);
        if self.index.insert(key, slot) {
            return Ok(slot);
        }
        let victim = self
            .index
            .neighbours(key)
            .filter(|&neighbour| self.state(neighbour).is_open())
            .min_by_key(|&neighbour| self.heat[neighbour as usize].load(Relaxed));
        if let Some(victim) = victim {
            self.release(room, victim);
            room.displaced += 1;
            if self.index.insert(key, slot) {
                return Ok(slot);
            }
        }
        self.give_page(room, slot);
        Err(Error::NoRoom)
    }

    pub(crate) fn take_any(&self, room: &mut Room) -> Option<u32> {
        loop {
            let current = room.current;
            let chunk = &mut room.chunks[current];
            if let Some(slot) = chunk.take(&self.slots) {
                let full = chunk.available() == 0;
                self.chunk_states[current].full.store(full, Relaxed);
                if room.may_hold(slot) {
                    return Some(slot);
                }
                self.give_page(room, slot);
                if !self.give_way(room) {
                    return None;
                }
                continue;
            }
            let chunks = room.chunks.iter().enumerate().rev();
            let (freest, chunk) = chunks.max_by_key(|(_, chunk)| chunk.available())?;
            if chunk.available() > 0 {
                room.current = freest;
            } else if !self.make_room(room) {
                return None;
            }
        }
    }

    fn give_page(&self, room: &mut Room, slot: u32) {
        let chunk = self.chunk_of(slot);
        room.chunks[chunk].give(slot, &self.slots);
        self.chunk_states[chunk].full.store(false, Relaxed);
        self.heat[slot as usize].store(0, Relaxed);
    }

    /// Forgets the entry of a page that is open, or locked for write by the caller, and frees it.
    pub(crate) fn release(&self, room: &mut Room, slot: u32) {
        self.forget(room, slot);
        let dont_need = room.chunks[self.chunk_of(slot)].backing == Backing::DontNeed;
        if dont_need || room.budget.is_tight() {
            self.give_back(room, slot..slot + 1);
        }
    }

    pub(crate) fn forget(&self, room: &mut Room, slot: u32) {
        let state = self.state(slot);
        if state.is_used() {
            self.close(slot, state);
        }
        if state.is_small() {
            self.forget_small(room, slot);
            self.give_page(room, slot);
            return;
        }
        let key = self.slots[slot as usize].key.load(Relaxed);
        self.index.remove(key, slot);
        self.give_page(room, slot);
    }

    /// Whether enough was written to a full chunk since it was sealed: an eighth, so that a page
    /// that is dropped and used again does not cost a call for all of them.
    pub(crate) fn seal_is_due(&self, number: usize) -> bool {
        let chunk = &self.chunk_states[number];
        chunk.full.load(Relaxed) && chunk.written.load(Relaxed) >= (self.pages_a_chunk / 8).max(1)
    }

    /// Lets the kernel have the pages of a chunk that has no writer (C2), but for the hottest.
    pub(crate) fn seal(&self, room: &mut Room, number: usize) {
        let (chunk, state) = (&room.chunks[number], &self.chunk_states[number]);
        let slots = chunk.slots();
        state.written.store(0, Relaxed);
        if chunk.backing != Backing::LazyFree || slots.is_empty() {
            return;
        }
        let pages = slots.end - slots.start;
        if !self.region.advise(slots.start, pages, Advice::Free) {
            room.refused_seals += 1;
            return;
        }
        room.seals += 1;
        self.kept.fetch_sub(state.kept.swap(0, Relaxed), Relaxed);
        for slot in slots {
            if self.heat[slot as usize].load(Relaxed) >= HOT && self.state(slot).is_used() {
                self.keep(slot);
            }
        }
    }

    /// Keeps a page from the kernel until its chunk is sealed anew, if not too many are kept. Needs
    /// no lock: the page's content does not change.
    pub(crate) fn keep(&self, slot: u32) {
        if self.kept.load(Relaxed) >= self.most_kept {
            return;
        }
        // SAFETY: a page of our region.
        if unsafe { racy::hold(self.region.page(slot)) } {
            let chunk = &self.chunk_states[self.chunk_of(slot)];
            chunk.kept.fetch_add(1, Relaxed);
            self.kept.fetch_add(1, Relaxed);
        }
    }
}
