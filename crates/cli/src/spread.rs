//! A sample of many.

/// At most `limit` of `items`, evenly spread.
pub fn spread(items: Vec<u64>, limit: u64) -> Vec<u64> {
    let (len, limit) = (items.len() as u128, u128::from(limit));
    if len <= limit {
        return items;
    }
    (0..limit)
        .map(|at| items[(at * len / limit) as usize])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_everything() {
        assert_eq!(spread((0..10).collect(), 5), [0, 2, 4, 6, 8]);
        assert_eq!(spread((0..3).collect(), 5), [0, 1, 2]);
        assert_eq!(spread((0..1000).collect(), 3), [0, 333, 666]);
    }
}
