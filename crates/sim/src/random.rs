//! The simulation's random numbers: small, fast, the same on every machine.

use std::cell::Cell;

/// A generator (SplitMix64): one word of state, every seed as good as another.
#[derive(Debug)]
pub struct Random(Cell<u64>);

/// Mixes a word thoroughly.
pub fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

impl Random {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(mix(seed ^ 0x5EED)))
    }

    /// 64 random bits.
    #[inline]
    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.set(state);
        mix(state)
    }

    /// A number below `limit`, which is not 0.
    #[inline]
    pub fn below(&self, limit: u64) -> u64 {
        debug_assert!(limit > 0);
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from `low` to below `high`.
    #[inline]
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// True once in `n` times on average; never for 0.
    #[inline]
    pub fn one_in(&self, n: u32) -> bool {
        n != 0 && self.below(u64::from(n)) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize]
    }
}
