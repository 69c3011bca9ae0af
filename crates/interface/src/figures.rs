//! Figures of the engine, and the values of its tunables, in the statistics file: each under the hash of
//! its name.
//!
//! The engine's own tables have the names, units and meanings (`docs/metrics.md`, `docs/tunables.md`);
//! whoever reads this block looks names up in the tables that were compiled into it. A name that one of
//! both sides does not know is left out, so tables may change from version to version.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The hash of a name (FNV-1a, 64 bits). A test of the engine holds that no two of its names share one.
pub const fn name_hash(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// Up to `N` values, each under the hash of its name.
#[repr(C)]
#[derive(Debug)]
pub struct Named<const N: usize> {
    /// How many there are.
    count: AtomicU64,
    /// Hash, value.
    pairs: [[AtomicU64; 2]; N],
}

impl<const N: usize> Default for Named<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Named<N> {
    /// Nothing.
    pub const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            pairs: [const { [const { AtomicU64::new(0) }; 2] }; N],
        }
    }

    /// Writes values, by the one writer, always in the same order. What there is no room for is left out.
    pub fn fill<'a>(&self, values: impl Iterator<Item = (&'a str, u64)>) {
        let mut count = 0;
        for ([hash, word], (name, value)) in self.pairs.iter().zip(values) {
            hash.store(name_hash(name), Relaxed);
            word.store(value, Relaxed);
            count += 1;
        }
        self.count.store(count, Release);
    }

    /// The value under a name, if it is there.
    pub fn get(&self, name: &str) -> Option<u64> {
        let (count, wanted) = (self.count.load(Acquire) as usize, name_hash(name));
        let mut pairs = self.pairs.iter().take(count);
        let pair = pairs.find(|[hash, _]| hash.load(Relaxed) == wanted)?;
        Some(pair[1].load(Relaxed))
    }
}

/// The block.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Figures {
    /// What the engine counts and holds.
    pub engine: Named<160>,
    /// What it works by: a number, 0 or 1, or which of the choices.
    pub tunables: Named<64>,
}

impl Figures {
    /// Nothing.
    pub const fn new() -> Self {
        Self {
            engine: Named::new(),
            tunables: Named::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_nothing_else_is() {
        let named = Named::<3>::new();
        assert_eq!(named.get("a"), None);
        named.fill([("a", 1), ("b", 2)].into_iter());
        assert_eq!((named.get("a"), named.get("b")), (Some(1), Some(2)));
        assert_eq!(named.get("c"), None);
        named.fill([("a", 5), ("b", 6), ("c", 7), ("d", 8)].into_iter());
        assert_eq!((named.get("c"), named.get("d")), (Some(7), None));
        // A damaged count does not lead out of the block.
        named.count.store(u64::MAX, Relaxed);
        assert_eq!(named.get("d"), None);
    }
}
