//! How long single pages took, in percentiles.
//!
//! Memory is fixed (4 KiB for a kind of work); recording is one relaxed addition, and a second one
//! when a new maximum is met. Percentiles are never too low, and too high by at most 1/16 (6.25 %)
//! of the value, or by 64 ns below 1 µs; the longest is exact.

use coldpress_interface::histogram::LogLinear;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sixteen buckets to an octave, from 64 ns to four minutes.
type Durations = LogLinear<4, 512>;

/// What the figures are called: of compression, then of decompression.
pub(crate) const LATENCIES: [[(&str, &str); 5]; 2] = [
    [
        (
            "compression_p50_ns",
            "Half of all compressions took at most so long.",
        ),
        (
            "compression_p90_ns",
            "90 % of all compressions took at most so long.",
        ),
        (
            "compression_p99_ns",
            "99 % of all compressions took at most so long.",
        ),
        (
            "compression_p999_ns",
            "99.9 % of all compressions took at most so long.",
        ),
        ("compression_longest_ns", "The longest of all compressions."),
    ],
    [
        (
            "decompression_p50_ns",
            "Half of all decompressions took at most so long.",
        ),
        (
            "decompression_p90_ns",
            "90 % of all decompressions took at most so long.",
        ),
        (
            "decompression_p99_ns",
            "99 % of all decompressions took at most so long.",
        ),
        (
            "decompression_p999_ns",
            "99.9 % of all decompressions took at most so long.",
        ),
        (
            "decompression_longest_ns",
            "The longest of all decompressions.",
        ),
    ],
];

/// Durations of one kind of work.
#[derive(Debug, Default)]
pub struct Latency {
    durations: Durations,
    longest_ns: AtomicU64,
}

/// What is said of durations. All zero where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// How many were measured.
    pub count: u64,
    /// Half of them took at most so long.
    pub p50_ns: u64,
    /// 90 % of them.
    pub p90_ns: u64,
    /// 99 % of them.
    pub p99_ns: u64,
    /// 99.9 % of them.
    pub p999_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

impl Latency {
    /// Forgets what was measured.
    pub(crate) fn begin_anew(&self) {
        self.durations.clear();
        self.longest_ns.store(0, Relaxed);
    }

    /// Nothing measured yet.
    pub const fn new() -> Self {
        Self {
            durations: Durations::new(),
            longest_ns: AtomicU64::new(0),
        }
    }

    /// Counts one duration. May be done on the fault path.
    pub fn record(&self, ns: u64) {
        // First, so that a reader that sees it counted knows a maximum that is not below it.
        if ns > self.longest_ns.load(Relaxed) {
            self.longest_ns.fetch_max(ns, Relaxed);
        }
        self.durations.record(ns);
    }

    /// What can be said of all that was measured.
    pub fn percentiles(&self) -> Percentiles {
        let longest_ns = self.longest_ns.load(Relaxed);
        let upto = |millionths| {
            let bound = self.durations.quantile_in_millionths_ns(millionths);
            bound.unwrap_or(0).min(longest_ns)
        };
        Percentiles {
            count: self.durations.count(),
            p50_ns: upto(500_000),
            p90_ns: upto(900_000),
            p99_ns: upto(990_000),
            p999_ns: upto(999_000),
            longest_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn nothing_measured_is_zero() {
        assert_eq!(Latency::new().percentiles(), Percentiles::default());
    }

    /// The stated bounds, against sorting, for a body with a long tail.
    #[test]
    fn percentiles_are_within_their_bounds() {
        let mut word = 0x9E37_79B9_7F4A_7C15u64;
        let mut all = Vec::new();
        let latency = Latency::new();
        for n in 0..100_000u64 {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
            let ns = match n % 1000 {
                0 => 1_000_000 + (word >> 40),
                n if n % 50 == 0 => 20_000 + (word >> 52),
                _ => 1_200 + (word >> 54),
            };
            latency.record(ns);
            all.push(ns);
        }
        all.sort_unstable();
        let p = latency.percentiles();
        assert_eq!((p.count, p.longest_ns), (100_000, all[99_999]));
        for (share, told) in [
            (500, p.p50_ns),
            (900, p.p90_ns),
            (990, p.p99_ns),
            (999, p.p999_ns),
        ] {
            let exact = all[100 * share - 1];
            assert!(told >= exact, "{share}: {told} is below {exact}");
            assert!(told - exact <= exact / 16, "{share}: {told} for {exact}");
        }
    }

    #[test]
    fn no_percentile_is_above_the_longest() {
        let latency = Latency::new();
        latency.record(1_000);
        let p = latency.percentiles();
        assert_eq!((p.p50_ns, p.p999_ns, p.longest_ns), (1_000, 1_000, 1_000));
        // Beyond the last bucket's start, too.
        latency.record(u64::MAX);
        assert_eq!(latency.percentiles().longest_ns, u64::MAX);
    }
}
