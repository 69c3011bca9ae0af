//! The middle of measured values, and other places in their order.

/// The median of some values, of an even number the mean of the middle two; `None` of none.
pub fn median_if_any(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 0 => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}

/// The same; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    median_if_any(values).unwrap_or(0.0)
}

/// The value that `share` (0 to 1) of all are at most; 0 of none.
pub fn quantile(values: &[u64], share: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let wanted = (sorted.len() as f64 * share).ceil() as usize;
    match sorted.len() {
        0 => 0,
        length => sorted[wanted.clamp(1, length) - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median_if_any(&[]), None);
        assert_eq!(median_if_any(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median_if_any(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!((median(&[1.0, 4.0]), median(&[])), (2.5, 0.0));
    }

    #[test]
    fn quantiles_are_values_that_were_there() {
        let values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(quantile(&values, 0.99), 99);
        assert_eq!(quantile(&values, 1.0), 100);
        assert_eq!(quantile(&[7], 0.5), 7);
        assert_eq!(quantile(&[], 0.5), 0);
    }
}
