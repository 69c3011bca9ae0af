//! The last readings of one figure, for a curve.

use std::collections::VecDeque;

/// As many as the widest terminals have columns.
const MOST: usize = 512;

/// Values, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(VecDeque<u64>);

impl History {
    /// One more. The oldest goes where there are too many.
    pub fn push(&mut self, value: u64) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// The last `count`, or as many as there are, the newest first.
    pub fn last(&self, count: usize) -> Vec<u64> {
        self.0.iter().rev().take(count).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let mut history = History::default();
        assert_eq!(history.last(3), Vec::<u64>::new());
        (0..MOST as u64 + 2).for_each(|n| history.push(n));
        assert_eq!(history.last(2), [MOST as u64 + 1, MOST as u64]);
        assert_eq!(history.last(usize::MAX).len(), MOST);
    }
}
