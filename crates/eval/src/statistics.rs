//! Medians and quantiles.

/// The middle value; `values` is reordered. The upper of two.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// Mean, p99 and worst of a list.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) p99: f64,
    pub(crate) worst: f64,
}

impl Spread {
    /// Of `values`, which is reordered; zeros if it is empty.
    pub(crate) fn of(values: &mut [f32]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let sum: f64 = values.iter().map(|v| f64::from(*v)).sum();
        let mean = sum / values.len() as f64;
        // Nearest rank: the smallest value that is not below 99 % of all.
        let rank = (values.len() * 99).div_ceil(100) - 1;
        let (_, p99, above) = values.select_nth_unstable_by(rank, f32::total_cmp);
        let p99 = *p99;
        let worst = above.iter().copied().fold(p99, f32::max);
        Self {
            mean,
            p99: p99.into(),
            worst: worst.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let mut values: Vec<f32> = (1..=100).rev().map(|v| v as f32).collect();
        let spread = Spread::of(&mut values);
        assert_eq!((spread.mean, spread.p99, spread.worst), (50.5, 99.0, 100.0));
        assert_eq!(Spread::of(&mut [7.0]).p99, 7.0);
        assert_eq!(Spread::of(&mut []), Spread::default());
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    }
}
