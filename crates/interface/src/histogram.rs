//! Latency histograms of fixed size: octaves divided into equal steps, from 64 ns on.
//!
//! ```text
//!  bucket 0 │ 1 … 2^S steps of the octave 64..128 ns │ 2^S steps of 128..256 ns │ … │ and all beyond
//! ```
//!
//! Quantiles read from one are upper bounds of their bucket: never too low, and too high by at
//! most 1/2^S of the value (below 64 ns by at most 64 ns). Recording is one relaxed atomic
//! addition: it may be done on the fault path. Nothing here computes with floating point but
//! [`LogLinear::quantile_ns`].

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of buckets of a [`Histogram`].
pub const BUCKETS: usize = 128;

/// The histogram of the statistics page: four buckets to an octave, so at most 25 % too high; from
/// 64 ns to over a minute.
pub type Histogram = LogLinear<2, BUCKETS>;

const FIRST_OCTAVE: u32 = 6;

/// Counts of durations in `N` buckets, each as wide as its octave divided by 2^`STEP_BITS`. Bucket 0
/// takes everything below 64 ns, the last everything beyond the range.
#[repr(C)]
#[derive(Debug)]
pub struct LogLinear<const STEP_BITS: u32, const N: usize> {
    counts: [AtomicU64; N],
}

impl<const STEP_BITS: u32, const N: usize> Default for LogLinear<STEP_BITS, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const STEP_BITS: u32, const N: usize> LogLinear<STEP_BITS, N> {
    const STEPS: u64 = 1 << STEP_BITS;

    /// An empty histogram.
    pub const fn new() -> Self {
        const {
            assert!(STEP_BITS <= FIRST_OCTAVE, "steps below a nanosecond");
            assert!(N >= 2 && N - 2 < (64 - FIRST_OCTAVE as usize) << STEP_BITS);
        }
        Self {
            counts: [const { AtomicU64::new(0) }; N],
        }
    }

    /// Forgets what was recorded.
    pub fn clear(&self) {
        self.counts.iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Bucket that a duration of `nanoseconds` falls into.
    pub fn bucket(nanoseconds: u64) -> usize {
        if nanoseconds < 1 << FIRST_OCTAVE {
            return 0;
        }
        let octave = nanoseconds.ilog2();
        let step = (nanoseconds >> (octave - STEP_BITS)) & (Self::STEPS - 1);
        let bucket = 1 + ((octave - FIRST_OCTAVE) as usize) * Self::STEPS as usize + step as usize;
        bucket.min(N - 1)
    }

    /// Smallest duration, in nanoseconds, that is too long for `bucket`. (The last bucket has no
    /// bound; what it would be is given.)
    pub fn upper_bound_ns(bucket: usize) -> u64 {
        if bucket == 0 {
            return 1 << FIRST_OCTAVE;
        }
        let octave = FIRST_OCTAVE + ((bucket as u64 - 1) / Self::STEPS) as u32;
        let step = (bucket as u64 - 1) % Self::STEPS;
        (1u64 << octave).saturating_add((step + 1) << (octave - STEP_BITS))
    }

    /// Counts one duration.
    pub fn record(&self, nanoseconds: u64) {
        self.counts[Self::bucket(nanoseconds)].fetch_add(1, Relaxed);
    }

    /// Number of durations counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|c| c.load(Relaxed)).sum()
    }

    /// Every bucket, from the shortest durations on: [`upper_bound_ns`](Self::upper_bound_ns), and how many it counted.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().enumerate();
        counts.map(|(bucket, count)| (Self::upper_bound_ns(bucket), count.load(Relaxed)))
    }

    /// Duration in nanoseconds that at least `millionths` of all counted ones stay below, or
    /// `None` where nothing was counted.
    pub fn quantile_in_millionths_ns(&self, millionths: u32) -> Option<u64> {
        const MILLION: u64 = 1_000_000;
        let total = self.count();
        if total == 0 {
            return None;
        }
        let millionths = u64::from(millionths);
        let wanted =
            total / MILLION * millionths + (total % MILLION * millionths).div_ceil(MILLION);
        let wanted = wanted.clamp(1, total);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count.load(Relaxed);
            if seen >= wanted {
                return Some(Self::upper_bound_ns(bucket));
            }
        }
        Some(Self::upper_bound_ns(N - 1))
    }

    /// Duration in nanoseconds that at least the share `quantile` (0 to 1) of all counted ones
    /// stays below, or `None` where nothing was counted.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        self.quantile_in_millionths_ns((quantile * 1e6 + 0.5) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fine = LogLinear<4, 512>;

    #[test]
    fn buckets_tile_the_range_without_gaps() {
        for bucket in 0..BUCKETS - 1 {
            let edge = Histogram::upper_bound_ns(bucket);
            assert_eq!(Histogram::bucket(edge - 1), bucket, "below edge {edge}");
            assert_eq!(Histogram::bucket(edge), bucket + 1, "at edge {edge}");
        }
        assert_eq!(Histogram::bucket(u64::MAX), BUCKETS - 1);
        for bucket in 0..511 {
            let edge = Fine::upper_bound_ns(bucket);
            assert_eq!(Fine::bucket(edge - 1), bucket, "below edge {edge}");
            assert_eq!(Fine::bucket(edge), bucket + 1, "at edge {edge}");
        }
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

    /// The ninety-ninth of ten durations is the longest: nine of them are only 90 %.
    #[test]
    fn a_quantile_of_few_durations_is_not_too_low() {
        let h = Histogram::new();
        (0..9).for_each(|_| h.record(1_000));
        h.record(1_000_000);
        assert!(h.quantile_ns(0.9).unwrap() <= 1_250);
        assert!(h.quantile_ns(0.99).unwrap() >= 1_000_000);
    }

    /// The stated error, on values all over the range.
    #[test]
    fn a_bound_is_above_its_value_by_at_most_one_step() {
        let mut ns = 64u64;
        while ns < 1 << 36 {
            let (coarse, fine) = (Histogram::bucket(ns), Fine::bucket(ns));
            let coarse = Histogram::upper_bound_ns(coarse) - ns;
            let fine = Fine::upper_bound_ns(fine) - ns;
            assert!(
                coarse <= ns / 4 && fine <= ns / 16,
                "{ns}: {coarse}, {fine}"
            );
            ns += ns / 7 + 1;
        }
    }
}
