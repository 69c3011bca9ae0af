//! Random debug compression: a share of pages goes at once, however young.
//!
//! For tests: the paths of compression are walked without waiting for pages to age and for memory
//! to run short. Whoever drives the engine keeps the generator and asks now and then; then, for
//! every page that was queued since, a coin is tossed, and for every hit a page that ages is chosen
//! at random and *picked*: the next reclaim takes it first. The same seed, with the same calls in
//! the same order, picks the same pages.

use super::LockedQueues;
use super::number::PICKED;
use crate::figures::counters::add;
use crate::machine::lock::HeldRanks;
use crate::{Engine, Host};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use lock_api::RawMutex;

/// Coins tossed in one call.
const COINS_AT_ONCE: u64 = 256;

/// Records looked at for one hit, before it is given up.
const LOOKS: u32 = 8;

/// A generator of random numbers (SplitMix64), and how far it has come.
#[derive(Clone, Debug)]
pub struct RandomPick {
    state: u64,
    /// Pages queued until the last call.
    queued: u64,
}

impl RandomPick {
    /// A generator with a seed.
    pub const fn new(seed: u64) -> Self {
        Self {
            state: seed,
            queued: 0,
        }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u32) -> u32 {
        (((self.draw() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

impl<R: RawMutex + HeldRanks> LockedQueues<'_, R> {
    /// Picks one page at random. `false`: of those looked at, none ages.
    fn pick(&mut self, random: &mut RandomPick) -> bool {
        let records = self.records.handed_out();
        if records == 0 {
            return false;
        }
        for _ in 0..LOOKS {
            let record = 1 + random.below(records);
            if self.is_ageing(record) && self.records.get(record).queue() != PICKED {
                self.remove(record);
                self.push(record, PICKED);
                return true;
            }
        }
        false
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Tosses a coin for each page that was queued since the last call with this generator, 256 at
    /// most, and picks as many pages as the coins say. `share_percent` of the coins are hits. Returns
    /// how many were picked; [`Engine::reclaim_batch`] takes these first.
    pub fn pick_random(&self, random: &mut RandomPick, share_percent: u64) -> u32 {
        let mut queues = self.queues.lock();
        let coins = queues.queued.wrapping_sub(random.queued);
        random.queued = queues.queued;
        let hits = (0..coins.min(COINS_AT_ONCE))
            .filter(|_| u64::from(random.below(100)) < share_percent)
            .count();
        self.pick_of(&mut queues, random, hits as u32)
    }

    /// Picks so many pages at random, or fewer, whatever was queued. Returns how many.
    pub fn pick_pages(&self, random: &mut RandomPick, pages: u32) -> u32 {
        self.pick_of(&mut self.queues.lock(), random, pages)
    }

    fn pick_of(
        &self,
        queues: &mut LockedQueues<'_, H::RawLock>,
        random: &mut RandomPick,
        pages: u32,
    ) -> u32 {
        let pick = |_: &u32| queues.pick(random);
        let picked = (0..pages).filter(pick).count() as u32;
        add(&self.counters.picked, u64::from(picked));
        picked
    }
}
