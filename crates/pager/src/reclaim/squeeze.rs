//! Whether the budget is mostly spent on stored pages.
//!
//! Then hardly any room is left for pages in place, what leaves is wanted back soon, and in the end the budget
//! cannot be kept at all. A codec that is slower, and makes stored pages a quarter smaller, is the better one: what
//! leaves is compressed by press-dense at once, and what is stored is re-coded without waiting for its age
//! ([`recode`](crate::reclaim::recode), [ADR 0020](../../../docs/adr/0020-two-tiers.md)).

/// Storage of more than this part of the budget is most of it ...
const MOST_PART: u64 = 2;
/// ... until it is less than this: what was re-coded takes three quarters of what it took.
const LITTLE_PART: u64 = 4;

/// Whether it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Squeeze(bool);

impl Squeeze {
    /// Looks again. Whether it is so, now.
    pub(crate) fn look(&mut self, storage_bytes: u64, budget: u64) -> bool {
        let part = if self.0 { LITTLE_PART } else { MOST_PART };
        self.0 = storage_bytes > budget / part;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_until_storage_is_far_less() {
        let mut squeeze = Squeeze::default();
        let seen = [40, 50, 51, 38, 26, 25, 40, 50, 60].map(|storage| squeeze.look(storage, 100));
        let expected = [false, false, true, true, true, false, false, false, true];
        assert_eq!(seen, expected);
        assert!(!Squeeze::default().look(1 << 40, u64::MAX), "no budget");
    }
}
