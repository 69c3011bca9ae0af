//! The histogram of the statistics page, which is fine and has no sum, as one of OpenMetrics.

use coldpress_interface::histogram::Histogram;

/// Bounds of the histogram of faults: every octave from 2¹⁰ ns, which is shorter than any fault, to 2³³ ns, 8.6 s.
const OCTAVES: std::ops::RangeInclusive<u32> = 10..=33;

/// How many faults took longer than the bound before and no longer than this one, by bounds in seconds.
pub fn by_octave(histogram: &Histogram) -> Vec<(f64, u64)> {
    let bounds = OCTAVES.map(|octave| 1u64 << octave);
    let mut buckets: Vec<(u64, u64)> = bounds.map(|bound| (bound, 0)).collect();
    buckets.push((u64::MAX, 0));
    let fine: Vec<(u64, u64)> = histogram.buckets().collect();
    let last = fine.len() - 1;
    for (index, (bound, count)) in fine.into_iter().enumerate() {
        // The last one takes all that is longer.
        let bound = if index == last { u64::MAX } else { bound };
        if let Some(bucket) = buckets.iter_mut().find(|(upper, _)| bound <= *upper) {
            bucket.1 += count;
        }
    }
    let in_seconds = |bound| match bound {
        u64::MAX => f64::INFINITY,
        bound => bound as f64 / 1e9,
    };
    let buckets = buckets.into_iter();
    buckets
        .map(|(bound, count)| (in_seconds(bound), count))
        .collect()
}

/// The sum of all durations, each taken for the middle of its bucket: at most an eighth off.
pub fn estimated_sum_seconds(histogram: &Histogram) -> f64 {
    let mut sum = 0.0;
    let mut lower = 0;
    for (upper, count) in histogram.buckets() {
        sum += count as f64 * (lower as f64 + upper as f64) / 2.0;
        lower = upper;
    }
    sum / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_below_their_bounds() {
        let histogram = Histogram::new();
        for nanoseconds in [0, 70, 1_023, 1_024, 5_000_000, 9_000_000_000, u64::MAX] {
            histogram.record(nanoseconds);
        }
        let buckets = by_octave(&histogram);
        assert_eq!(buckets.len(), OCTAVES.count() + 1);
        assert_eq!(buckets[0], (1.024e-6, 3));
        assert_eq!(buckets[1], (2.048e-6, 1));
        assert!(
            buckets
                .iter()
                .any(|(bound, count)| (*bound, *count) == (8.388_608e-3, 1))
        );
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, 2)));
        assert!(buckets.is_sorted_by(|one, next| one.0 < next.0));
        let all: u64 = buckets.iter().map(|(_, count)| count).sum();
        assert_eq!(all, histogram.count());
    }

    #[test]
    fn the_sum_is_at_most_an_eighth_off() {
        let histogram = Histogram::new();
        let mut exact = 0;
        for n in 1..2_000u64 {
            let nanoseconds = 2_000 + n * n * 37;
            histogram.record(nanoseconds);
            exact += nanoseconds;
            let (sum, exact) = (estimated_sum_seconds(&histogram), exact as f64 / 1e9);
            assert!((sum - exact).abs() <= exact / 8.0, "{sum} {exact}");
        }
    }
}
