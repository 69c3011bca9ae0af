//! Whether two series of measurements differ, without assumptions about how they are spread.
//!
//! The series are paired: the values of a round were taken one after the other. So the differences
//! within the rounds are looked at, and whatever drifts from round to round is not.

use coldpress_harness::figures::median;

/// What the comparison of a series with the first one says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median of the differences within the rounds.
    pub difference: f64,
    /// Where it lies with a confidence of 95 %: bootstrap over the rounds.
    pub from: f64,
    /// As above.
    pub to: f64,
    /// How probable differences so one-sided are if nothing but chance makes them: Wilcoxon's
    /// signed-rank test, two-sided.
    pub p: f64,
    /// How often somebody who sees one value of each series tells which is which: a half is chance.
    /// (Mann and Whitney's U, divided by the number of pairs.)
    pub told_apart: f64,
}

/// Compares a series with the first one, round by round.
pub fn compare(first: &[f64], of: &[f64]) -> Comparison {
    let differences: Vec<f64> = of.iter().zip(first).map(|(a, b)| a - b).collect();
    let (from, to) = bootstrap(&differences);
    let u = share_greater(first, of);
    Comparison {
        difference: median(&differences),
        from,
        to,
        p: signed_rank(&differences),
        told_apart: u.max(1.0 - u),
    }
}

fn bootstrap(values: &[f64]) -> (f64, f64) {
    const RESAMPLES: usize = 2000;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut any = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        values[(state >> 33) as usize % values.len()]
    };
    let mut resample = |_| median(&(0..values.len()).map(|_| any()).collect::<Vec<_>>());
    let mut medians: Vec<f64> = (0..RESAMPLES).map(&mut resample).collect();
    medians.sort_by(f64::total_cmp);
    (
        medians[RESAMPLES / 40],
        medians[RESAMPLES - 1 - RESAMPLES / 40],
    )
}

/// By the normal approximation, with a correction for ties; differences of zero are left out.
fn signed_rank(differences: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    sizes.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = sizes.len() as f64;
    let (mut positive, mut ties, mut at) = (0.0, 0.0, 0);
    while at < sizes.len() {
        let alike = sizes[at..]
            .iter()
            .take_while(|d| d.abs() == sizes[at].abs());
        let count = alike.count();
        let rank = at as f64 + (count as f64 + 1.0) / 2.0;
        positive += rank * sizes[at..at + count].iter().filter(|d| **d > 0.0).count() as f64;
        ties += (count.pow(3) - count) as f64;
        at += count;
    }
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0;
    if variance <= 0.0 {
        return 1.0;
    }
    let deviation = (positive - n * (n + 1.0) / 4.0).abs() - 0.5;
    two_sided(deviation.max(0.0) / variance.sqrt())
}

/// The share of all pairs in which the second value is the greater one; ties count a half.
fn share_greater(first: &[f64], of: &[f64]) -> f64 {
    let pairs = first.iter().flat_map(|a| of.iter().map(move |b| (a, b)));
    let greater = pairs.map(|(a, b)| match b.total_cmp(a) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    });
    greater.sum::<f64>() / (first.len() * of.len()) as f64
}

/// How probable a normal deviate as far out as `z` is: Abramowitz and Stegun 7.1.26, to 1.5e-7.
fn two_sided(z: f64) -> f64 {
    let x = z / 2_f64.sqrt();
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let sum = series.iter().fold(0.0, |sum, a| sum * t + a);
    (sum * t * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(offset: f64, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        (0..200)
            .map(|_| 1000.0 + offset + 100.0 * (next() + next() - 1.0))
            .collect()
    }

    #[test]
    fn the_normal_distribution_is_right() {
        for (z, p) in [
            (0.0, 1.0),
            (1.0, 0.317_31),
            (1.959_964, 0.05),
            (3.290_53, 0.001),
        ] {
            assert!((two_sided(z) - p).abs() < 1e-5, "{z}");
        }
    }

    #[test]
    fn equal_series_are_not_told_apart() {
        let same = compare(&noisy(0.0, 1), &noisy(0.0, 2));
        assert!(
            same.p > 0.01 && same.from <= 0.0 && same.to >= 0.0,
            "{same:?}"
        );
        assert!(same.told_apart < 0.58, "{same:?}");
        let identical = compare(&[5.0; 20], &[5.0; 20]);
        assert_eq!(
            (identical.difference, identical.p, identical.told_apart),
            (0.0, 1.0, 0.5)
        );
    }

    #[test]
    fn a_shift_is_seen_and_its_size_told() {
        let shifted = compare(&noisy(0.0, 1), &noisy(30.0, 2));
        assert!(shifted.p < 1e-6, "{shifted:?}");
        assert!(shifted.from < 30.0 && 30.0 < shifted.to, "{shifted:?}");
        assert!(shifted.told_apart > 0.6);
    }

    /// An example with ties, reckoned by hand: of ranks 1 to 6 the positive ones are 5 and 6, the others
    /// 2, 2, 2 and 4.
    #[test]
    fn ranks_are_shared_by_ties() {
        let p = signed_rank(&[-1.0, -1.0, -1.0, -2.0, 3.0, 4.0, 0.0]);
        let deviation = (11.0 - 10.5_f64).abs() - 0.5;
        assert_eq!(p, two_sided(deviation));
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), 2.5);
    }
}
