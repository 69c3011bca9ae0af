//! Taking pages for entries, and giving them back: to the cache, or to the kernel where a budget wants them.

use crate::cache::Cache;
use crate::error::Error;
use crate::options::Backing;
use crate::order::DEFAULT_COST;
use crate::racy;
use crate::region::Advice;
use crate::room::{HOT, Room};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

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

    /// Gives free pages back to the kernel.
    pub(crate) fn give_back(&self, room: &mut Room, run: Range<u32>) {
        let pages = run.end - run.start;
        if !run.is_empty() && self.region.advise(run.start, pages, Advice::DontNeed) {
            room.budget.given_back(run);
        }
    }

    /// Brings held pages below the hard budget: by giving back free ones, or by evicting. False if there
    /// is nothing that could go.
    pub(crate) fn give_way(&self, room: &mut Room) -> bool {
        self.give_back_free(room) > 0 || self.evict_coldest(room) > 0
    }

    /// Gives back all free pages that are held. Returns how many those were.
    pub(crate) fn give_back_free(&self, room: &mut Room) -> usize {
        let used = self.pages() - room.free_pages();
        let before = room.budget.held_pages;
        if before <= used {
            return 0;
        }
        for number in 0..room.chunks.len() {
            let mut free = room.chunks[number].first_free();
            while let Some(slot) = free {
                if room.budget.is_held(slot) {
                    self.give_back(room, slot..slot + 1);
                }
                free = room.chunks[number].free_after(slot, &self.slots);
            }
        }
        before - room.budget.held_pages
    }
}
