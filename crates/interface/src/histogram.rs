//! A latency histogram of fixed size: four buckets to an octave, from 64 ns to over a minute.
//!
//! Quantiles read from it are upper bounds of their bucket, so at most 25 % too high and never
//! too low. Recording is one relaxed atomic addition: it may be done on the fault path.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of buckets. Bucket 0 takes everything below 64 ns, the last everything beyond the range.
pub const BUCKETS: usize = 128;

const FIRST_OCTAVE: u32 = 6;

/// Counts of durations, in buckets whose width is a quarter of their octave.
#[repr(C)]
#[derive(Debug)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub const fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Bucket that a duration of `nanoseconds` falls into.
    pub fn bucket(nanoseconds: u64) -> usize {
        if nanoseconds < 1 << FIRST_OCTAVE {
            return 0;
        }
        let octave = nanoseconds.ilog2();
        let quarter = (nanoseconds >> (octave - 2)) & 3;
        let bucket = 1 + (octave - FIRST_OCTAVE) as usize * 4 + quarter as usize;
        bucket.min(BUCKETS - 1)
    }

    /// Smallest duration, in nanoseconds, that is too long for `bucket`.
    pub fn upper_bound_ns(bucket: usize) -> u64 {
        if bucket == 0 {
            return 1 << FIRST_OCTAVE;
        }
        let octave = FIRST_OCTAVE + (bucket as u32 - 1) / 4;
        let quarter = (bucket as u64 - 1) % 4;
        (1u64 << octave) + (quarter + 1) * (1u64 << (octave - 2))
    }

    /// Counts one duration.
    pub fn record(&self, nanoseconds: u64) {
        self.counts[Self::bucket(nanoseconds)].fetch_add(1, Relaxed);
    }

    /// Number of durations counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|c| c.load(Relaxed)).sum()
    }

    /// Duration in nanoseconds that the share `quantile` (0 to 1) of all counted ones stays
    /// below, or `None` where nothing was counted.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let wanted = ((total as f64 * quantile) as u64).clamp(1, total);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count.load(Relaxed);
            if seen >= wanted {
                return Some(Self::upper_bound_ns(bucket));
            }
        }
        Some(Self::upper_bound_ns(BUCKETS - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_range_without_gaps() {
        for bucket in 0..BUCKETS - 1 {
            let edge = Histogram::upper_bound_ns(bucket);
            assert_eq!(Histogram::bucket(edge - 1), bucket, "below edge {edge}");
            assert_eq!(Histogram::bucket(edge), bucket + 1, "at edge {edge}");
        }
        assert_eq!(Histogram::bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_bound_what_was_recorded() {
        let h = Histogram::new();
        assert_eq!(h.quantile_ns(0.5), None);
        for ns in 1..=1000u64 {
            h.record(ns * 100);
        }
        let p50 = h.quantile_ns(0.5).unwrap();
        let p99 = h.quantile_ns(0.99).unwrap();
        assert!((50_000..=62_500).contains(&p50), "{p50}");
        assert!((99_000..=123_750).contains(&p99), "{p99}");
    }
}
