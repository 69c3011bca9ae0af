//! What goes when all pages are used, or when memory is wanted back.

use crate::PAGE_BYTES;
use crate::cache::{Cache, Copied};
use crate::options::Backing;
use crate::racy;
use crate::room::{Draining, HOTTEST, Room, cooling_period};
use crate::tier::STEP_PAGES;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

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

/// What becomes of the pages of entries that are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freed {
    /// The cache keeps them for other entries.
    Kept,
    /// The kernel has them back.
    GivenBack,
}

impl Cache {
    /// Frees pages while there is none. False if all are locked for write.
    pub(crate) fn make_room(&self, room: &mut Room) -> bool {
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
        self.evict_from(room, number, Freed::Kept) > 0
    }

    /// Begins to evict from a chunk that has entries. Returns the pages freed, which is not 0.
    fn evict_from(&self, room: &mut Room, number: usize, freed: Freed) -> u32 {
        self.begin_eviction(room, number, freed);
        let chosen = room.draining.clone();
        let pages = self.drain(room);
        if pages > 0 {
            return pages;
        }
        // Readers have warmed since all that was cold: something has to go.
        room.draining = chosen.map(|chosen| Draining {
            bound: HOTTEST,
            ..chosen
        });
        self.drain(room)
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
            if !self.state(slot).is_used() {
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
    pub(crate) fn reuse_taken(&self, room: &mut Room, number: usize) -> u32 {
        let slots = room.chunks[number].slots();
        let mut residency = std::mem::take(&mut room.residency);
        self.region
            .residency(slots.start, &mut residency[..slots.len()]);
        let mut freed = 0;
        for (slot, resident) in slots.zip(&residency) {
            if resident & 1 == 1 || !self.state(slot).is_used() {
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

    /// Chooses what goes of a chunk: the colder half, or more where that ends among equals. Pages of
    /// [`Backing::DontNeed`] are given back in any case.
    fn begin_eviction(&self, room: &mut Room, number: usize, freed: Freed) {
        let slots = room.chunks[number].slots();
        let mut by_heat = [0u32; HOTTEST as usize + 1];
        for slot in slots.clone().filter(|&slot| self.state(slot).is_used()) {
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
            give_back: freed == Freed::GivenBack
                || room.chunks[number].backing == Backing::DontNeed,
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
            if !self.state(slot).is_used() || self.heat_of(slot) > draining.bound {
                continue;
            }
            self.compress(room, slot);
            self.forget(room, slot);
            freed += 1;
            if !draining.give_back {
                continue;
            }
            if run.end != slot {
                self.give_back(room, run);
                run = slot..slot;
            }
            run.end = slot + 1;
            // Where each page counts, the next one's compressed form may need the memory of this.
            if room.budget.is_tight() {
                self.give_back(room, run);
                run = slot + 1..slot + 1;
            }
        }
        self.give_back(room, run);
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
        tier.limit(room.budget.left_bytes());
        let state = self.state(slot);
        if state.is_small() {
            return;
        }
        let mut page = [0; PAGE_BYTES];
        // SAFETY: `page` is ours and a page long. Nobody writes: that needs the room lock.
        let copied = unsafe { self.copy_out(slot, state, 0, page.as_mut_ptr(), PAGE_BYTES) };
        if copied == Copied::Whole {
            let key = self.slots[slot as usize].key.load(Relaxed);
            tier.keep(key, &page, self.cost(slot));
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

    /// Evicts from the coldest chunk, gives the memory back at once, and goes on with that the next
    /// time. Returns the pages freed, 0 if there is nothing to evict.
    pub(crate) fn evict_coldest(&self, room: &mut Room) -> u32 {
        if room.draining.as_ref().is_some_and(|left| left.give_back) {
            let freed = self.drain(room);
            if freed > 0 {
                return freed;
            }
        }
        let mut coldest: Option<(u64, usize)> = None;
        for number in 0..room.chunks.len() {
            let survey = self.survey(room, number);
            // A chunk that the kernel has emptied gives nothing back.
            if survey.open > survey.taken {
                let found = (survey.worth_a_page(), number);
                coldest = Some(coldest.map_or(found, |least| least.min(found)));
            }
        }
        let Some((_, number)) = coldest else { return 0 };
        self.evict_from(room, number, Freed::GivenBack)
    }

    /// Evicts the coldest entries until `bytes` bytes of them are gone, and gives their memory back
    /// at once. Returns the bytes of the entries evicted: fewer only if there were no more.
    pub fn shrink(&self, bytes: u64) -> u64 {
        let mut room = self.lock_room();
        let mut evicted = 0;
        while evicted < bytes {
            let freed = self.evict_coldest(&mut room);
            if freed == 0 {
                break;
            }
            evicted += u64::from(freed) * PAGE_BYTES as u64;
        }
        evicted
    }
}
