//! Chunks: where pages come from, when the kernel may have them, and what goes when all are used.
//!
//! A chunk is a range of pages of one backing. Free pages form a list through the keys of their
//! records, so that nothing is allocated after a cache is made.

use crate::PAGE_BYTES;
use crate::cache::Cache;
use crate::error::Error;
use crate::options::Backing;
use crate::racy;
use crate::read::Copied;
use crate::region::Advice;
use crate::slot::Slot;
use crate::tier::{STEP_PAGES, Tier};
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed},
};

/// The most heat a page can have. Four halvings make the hottest page cold.
pub(crate) const HOTTEST: u8 = 15;

/// Heat from which a page of a sealed chunk is kept from the kernel: hit four times, where the
/// original's benchmark touches cold entries twice and hot ones eight times.
pub(crate) const HOT: u8 = 4;

/// A chunk, under the room lock.
pub(crate) struct Chunk {
    first: u32,
    pages: u32,
    backing: Backing,
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
    kept: AtomicU32,
    /// No page is free. Under the room lock; read without it as a hint.
    full: AtomicBool,
}

/// What the room lock guards, beside states and words of the index.
pub(crate) struct Room {
    chunks: Vec<Chunk>,
    /// The chunk that is being filled.
    current: usize,
    /// Evictions until all heat is halved.
    until_cooling: usize,
    /// What is left of the last eviction.
    draining: Option<Draining>,
    /// Where evicted entries stay, compressed.
    pub tier: Option<Tier>,
    /// For ties, by xorshift.
    random: u64,
    /// What the kernel says of a chunk's pages.
    residency: Vec<u8>,
    /// Counters, see [`Stats`](crate::Stats).
    pub evicted: u64,
    pub reused: u64,
    pub displaced: u64,
    pub seals: u64,
    pub refused_seals: u64,
}

/// An eviction that is done in steps.
#[derive(Clone)]
struct Draining {
    chunk: usize,
    /// Pages still to be looked at.
    slots: Range<u32>,
    /// Heat up to which entries go.
    bound: u8,
    /// Give pages back to the kernel.
    give_back: bool,
}

/// What would go with a chunk.
#[derive(Clone, Copy, Default)]
struct Survey {
    /// Pages with an entry.
    open: u32,
    /// Of these, what the kernel seems to have taken.
    taken: u32,
    /// One for each of the others, and their heat.
    worth: u64,
}

impl Survey {
    /// What a page of it is worth, in 65,536ths.
    fn worth_a_page(&self) -> u64 {
        (self.worth << 16) / u64::from(self.open)
    }
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

    fn slots(&self) -> Range<u32> {
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

    fn give(&mut self, slot: u32, slots: &[Slot]) {
        slots[slot as usize].key.store(self.free, Relaxed);
        self.free = u64::from(slot) + 1;
        self.free_pages += 1;
    }
}

impl Room {
    pub fn new(chunks: Vec<Chunk>, pages_a_chunk: u32, tier: Option<Tier>) -> Room {
        Room {
            until_cooling: cooling_period(chunks.len()),
            chunks,
            current: 0,
            draining: None,
            tier,
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

    fn one_of(&mut self, ways: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(ways)
    }
}

/// Evictions between two halvings of all heat: as many as exchange the whole content, at half a
/// chunk each. Hit rates of `evicts_better_than_random_chunks` (hot and cold, cyclic, moving) with an eighth, a half, one and
/// two of this: .519 .190 .515 · .539 .186 .515 · .539 .370 .502 · .540 .373 .490; random chunks
/// .430 .205 .425.
fn cooling_period(chunks: usize) -> usize {
    2 * chunks
}

impl Cache {
    /// A page for `key`, which has none; closed, and in the index.
    pub(crate) fn take_page(&self, room: &mut Room, key: u64) -> Result<u32, Error> {
        let slot = self.take_any(room).ok_or(Error::NoRoom)?;
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

    fn take_any(&self, room: &mut Room) -> Option<u32> {
        loop {
            let current = room.current;
            let chunk = &mut room.chunks[current];
            if let Some(slot) = chunk.take(&self.slots) {
                let full = chunk.available() == 0;
                self.chunk_states[current].full.store(full, Relaxed);
                return Some(slot);
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
        if room.chunks[self.chunk_of(slot)].backing == Backing::DontNeed {
            self.region.advise(slot, 1, Advice::DontNeed);
        }
    }

    fn forget(&self, room: &mut Room, slot: u32) {
        let state = self.state(slot);
        if state.is_open() {
            self.close(slot, state);
        }
        let key = self.slots[slot as usize].key.load(Relaxed);
        self.index.remove(key, slot);
        self.give_page(room, slot);
    }

    /// Frees pages while there is none. False if all are locked for write.
    fn make_room(&self, room: &mut Room) -> bool {
        if self.drain(room) > 0 {
            return true;
        }
        room.until_cooling -= 1;
        if room.until_cooling == 0 {
            room.until_cooling = cooling_period(room.chunks.len());
            self.cool(room);
        }
        let mut most_taken = (0, 0);
        let mut coldest: Option<(u64, usize)> = None;
        let mut ties = 1;
        for number in 0..room.chunks.len() {
            let survey = self.survey(room, number);
            if survey.open == 0 {
                continue;
            }
            if survey.taken > most_taken.0 {
                most_taken = (survey.taken, number);
            }
            let worth = survey.worth_a_page();
            match coldest {
                Some((least, _)) if worth > least => {}
                Some((least, _)) if worth == least => {
                    ties += 1;
                    if room.one_of(ties) {
                        coldest = Some((worth, number));
                    }
                }
                _ => {
                    coldest = Some((worth, number));
                    ties = 1;
                }
            }
        }
        let (taken, number) = most_taken;
        let worthwhile = if self.overcommit {
            1
        } else {
            (room.chunks[number].pages / 8).max(1)
        };
        if taken >= worthwhile && self.reuse_taken(room, number) > 0 {
            return true;
        }
        let Some((_, number)) = coldest else {
            return false;
        };
        self.begin_eviction(room, number, false);
        self.drain(room) > 0
    }

    /// What evicting from a chunk would lose.
    fn survey(&self, room: &mut Room, number: usize) -> Survey {
        let chunk = &room.chunks[number];
        let slots = chunk.slots();
        let lazy = chunk.backing == Backing::LazyFree;
        let residency = &mut room.residency[..slots.len()];
        if lazy && !slots.is_empty() {
            self.region.residency(slots.start, residency);
        }
        let mut survey = Survey::default();
        for (slot, resident) in slots.zip(residency) {
            if !self.state(slot).is_open() {
                continue;
            }
            survey.open += 1;
            if lazy && *resident & 1 == 0 {
                survey.taken += 1;
            } else {
                survey.worth += 1 + u64::from(self.heat[slot as usize].load(Relaxed));
            }
        }
        survey
    }

    /// Frees the pages of a chunk that the kernel has taken, as far as the last survey says (which
    /// was of this chunk or is made anew).
    fn reuse_taken(&self, room: &mut Room, number: usize) -> u32 {
        let slots = room.chunks[number].slots();
        let mut residency = std::mem::take(&mut room.residency);
        self.region
            .residency(slots.start, &mut residency[..slots.len()]);
        let mut freed = 0;
        for (slot, resident) in slots.zip(&residency) {
            if resident & 1 == 1 || !self.state(slot).is_open() {
                continue;
            }
            // Swapped out is not taken.
            // SAFETY: a page of our region.
            if unsafe { racy::marker(self.region.page(slot)) }.load(Relaxed) == 0 {
                self.release(room, slot);
                freed += 1;
            }
        }
        room.residency = residency;
        room.reused += u64::from(freed);
        freed
    }

    /// Chooses what goes of a chunk: the colder half, or more where that ends among equals. The pages
    /// go back to the kernel as well if `give_back`, or if the backing is of that kind.
    fn begin_eviction(&self, room: &mut Room, number: usize, give_back: bool) {
        let slots = room.chunks[number].slots();
        let mut by_heat = [0u32; HOTTEST as usize + 1];
        for slot in slots.clone().filter(|&slot| self.state(slot).is_open()) {
            by_heat[self.heat_of(slot) as usize] += 1;
        }
        let half = by_heat.iter().sum::<u32>().div_ceil(2);
        let mut sum = 0;
        let bound = by_heat.iter().position(|&pages| {
            sum += pages;
            sum >= half
        });
        room.draining = Some(Draining {
            chunk: number,
            slots,
            bound: bound.unwrap_or(0) as u8,
            give_back: give_back || room.chunks[number].backing == Backing::DontNeed,
        });
    }

    fn heat_of(&self, slot: u32) -> u8 {
        self.heat[slot as usize].load(Relaxed).min(HOTTEST)
    }

    /// Goes on with the eviction that was begun: to its end, or for a step where entries are
    /// compressed. Returns the pages freed, 0 at its end.
    fn drain(&self, room: &mut Room) -> u32 {
        let Some(mut draining) = room.draining.take() else {
            return 0;
        };
        let most = if room.tier.is_some() {
            STEP_PAGES
        } else {
            u32::MAX
        };
        let mut run = draining.slots.start..draining.slots.start;
        let mut freed = 0;
        while freed < most
            && let Some(slot) = draining.slots.next()
        {
            // Readers go on counting: what is hit this very moment stays.
            if !self.state(slot).is_open() || self.heat_of(slot) > draining.bound {
                continue;
            }
            self.compress(room, slot);
            self.forget(room, slot);
            freed += 1;
            if !draining.give_back {
                continue;
            }
            if run.end != slot {
                self.give_back(run);
                run = slot..slot;
            }
            run.end = slot + 1;
        }
        self.give_back(run);
        room.evicted += u64::from(freed);
        if freed > 0 {
            room.current = draining.chunk;
            room.draining = Some(draining);
        }
        freed
    }

    /// Keeps an open page's entry in the compressed tier, if there is one and the kernel has not
    /// taken the page. It is forgotten next (T1).
    fn compress(&self, room: &mut Room, slot: u32) {
        let Some(tier) = &mut room.tier else { return };
        let state = self.state(slot);
        let mut page = [0; PAGE_BYTES];
        // SAFETY: `page` is ours and a page long. Nobody writes: that needs the room lock.
        let copied = unsafe { self.copy_out(slot, state, 0, page.as_mut_ptr(), PAGE_BYTES) };
        if copied == Copied::Whole {
            let key = self.slots[slot as usize].key.load(Relaxed);
            tier.keep(key, &page);
        }
    }

    fn give_back(&self, run: Range<u32>) {
        if !run.is_empty() {
            self.region
                .advise(run.start, run.end - run.start, Advice::DontNeed);
        }
    }

    /// Halves all heat, so that what was hot once does not stay for ever, and lets the kernel have
    /// what is no longer hot.
    fn cool(&self, room: &mut Room) {
        for heat in self.heat.iter() {
            let hits = heat.load(Relaxed);
            if hits > 0 {
                heat.store(hits / 2, Relaxed);
            }
        }
        for number in 0..room.chunks.len() {
            let chunk = &self.chunk_states[number];
            if chunk.kept.load(Relaxed) > 0 && chunk.writers.load(Acquire) == 0 {
                self.seal(room, number);
            }
        }
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
            if self.heat[slot as usize].load(Relaxed) >= HOT && self.state(slot).is_open() {
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

    /// Evicts the coldest entries until `bytes` bytes of them are gone, and gives their memory back
    /// at once. Returns the bytes of the entries evicted: fewer only if there were no more.
    pub fn shrink(&self, bytes: u64) -> u64 {
        let page = crate::PAGE_BYTES as u64;
        let mut room = self.lock_room();
        let mut evicted = 0;
        while evicted < bytes {
            let mut coldest: Option<(u64, usize)> = None;
            for number in 0..room.chunks.len() {
                let survey = self.survey(&mut room, number);
                // A chunk that the kernel has emptied gives nothing back.
                if survey.open > survey.taken {
                    let found = (survey.worth_a_page(), number);
                    coldest = Some(coldest.map_or(found, |least| least.min(found)));
                }
            }
            let Some((_, number)) = coldest else { break };
            self.begin_eviction(&mut room, number, true);
            let before = evicted;
            loop {
                let freed = self.drain(&mut room);
                if freed == 0 {
                    break;
                }
                evicted += u64::from(freed) * page;
            }
            if evicted == before {
                break;
            }
        }
        evicted
    }
}
