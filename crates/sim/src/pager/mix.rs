//! What the program of a world does more often than others, less often, or never.
//!
//! A fault that needs three rare things at once is met by no program that does a little of everything. So each world
//! draws a mix of its own (swarm testing, Groce et al. 2012): some do nothing but a few things, on few pages, with memory
//! that is dropped very late, or forks that take very long.

use super::space;
use crate::inject::Injections;
use crate::random::Random;
use crate::schedule::random;
use coldpress_engine::SEGMENT_PAGES;
use coldpress_uffd::{AddressRange, PAGE_SIZE};

/// What a thread of the program does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Reads a page.
    Read,
    /// Writes to a page.
    Write,
    /// Reads pages one behind the other.
    ReadRun,
    /// Fills pages with zeros.
    ClearRun,
    /// `madvise(MADV_DONTNEED)`.
    Drop,
    /// `mremap`.
    Move,
    /// `munmap`, and `mmap` later.
    Unmap,
    /// `clone` by an instruction of its own.
    Clone,
    /// `fork`.
    Fork,
    /// Says that it cannot wait for some memory, or can.
    Advise,
    /// Makes a robust mutex.
    Mutex,
    /// What is nobody's doing.
    Disturb,
    /// Guards.
    Guard,
    /// Advice for forks.
    KeepFromChildren,
    /// `mremap` in place.
    Grow,
    /// Nothing.
    Doze,
}

/// How often each is done where a program does a little of everything.
const USUAL: [(Deed, u32); 16] = [
    (Deed::Read, 200),
    (Deed::Write, 120),
    (Deed::ReadRun, 20),
    (Deed::ClearRun, 4),
    (Deed::Drop, 18),
    (Deed::Move, 20),
    (Deed::Unmap, 6),
    (Deed::Clone, 1),
    (Deed::Fork, 1),
    (Deed::Advise, 4),
    (Deed::Mutex, 2),
    (Deed::Disturb, 2),
    (Deed::Guard, 2),
    (Deed::KeepFromChildren, 2),
    (Deed::Grow, 2),
    (Deed::Doze, 2),
];

/// What the program of a world does how often.
#[derive(Debug)]
pub struct Mix {
    weights: [u32; USUAL.len()],
    /// So many pages are touched again and again.
    pub hot_pages: u64,
    /// How long memory may stay after it was told that it will be dropped, in steps.
    pub late_steps: u64,
    /// How long a fork may take, in steps.
    pub fork_steps: u64,
    /// So many pages are moved together.
    pub moved_pages: u64,
    /// One write in so many is of zeros.
    pub zeros: u32,
    /// Little memory: what is done to a page, and what a page is touched for, meet.
    pub is_small: bool,
}

impl Mix {
    /// The usual one, or another.
    pub fn draw(random: &Random) -> Self {
        let is_usual = random.one_in(3);
        let weight = |(deed, usual): (Deed, u32)| {
            let factor = match deed {
                _ if is_usual => 1,
                Deed::Read | Deed::Write => random.pick(&[1, 1, 1, 3]),
                Deed::Fork => random.pick(&[0, 1, 4]),
                _ => random.pick(&[0, 1, 1, 4, 12]),
            };
            usual * factor
        };
        let usual_or = |usual: u64, others: [u64; 3]| match is_usual {
            true => usual,
            false => random.pick(&others),
        };
        Self {
            weights: USUAL.map(weight),
            hot_pages: usual_or(8, [2, 8, 32]),
            late_steps: usual_or(3_000, [500, 5_000, 25_000]),
            fork_steps: usual_or(200, [200, 2_000, 8_000]),
            zeros: usual_or(0, [0, 8, 1]) as u32,
            moved_pages: usual_or(40, [40, 8, 3]),
            is_small: !is_usual && random.one_in(2),
        }
    }

    /// What comes next.
    pub fn deed(&self) -> Deed {
        let mut left = random().below(self.weights.iter().sum::<u32>().into()) as u32;
        for ((deed, _), weight) in USUAL.iter().zip(self.weights) {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return *deed,
            }
        }
        unreachable!("below the sum")
    }

    /// Where the program has memory.
    pub fn regions(&self) -> Vec<AddressRange> {
        let mut at = space::BASE;
        let (count, least, most) = match self.is_small {
            true => (random().between(1, 3), 34, 90),
            false => (random().between(2, 5), 40, 300),
        };
        let region = |_| {
            let len = random().between(least, most) as usize * PAGE_SIZE;
            let start = at;
            // Side by side, or with a gap; across the border of a window, or in another one.
            at += len
                + match random().below(3) {
                    0 => 0,
                    1 => random().between(1, 70) as usize * PAGE_SIZE,
                    _ => random().between(1, 2 * u64::from(SEGMENT_PAGES)) as usize * PAGE_SIZE,
                };
            AddressRange::new(start, len)
        };
        (0..count).map(region).collect()
    }

    /// Some of what goes wrong by chance does so more often in a world, or never.
    pub fn stir(random: &Random, injections: &Injections) {
        if random.one_in(2) {
            injections.scale(|rate| match random.below(6) {
                0 => 0,
                1..=2 => rate.div_ceil(4),
                _ => rate,
            });
        }
    }
}
