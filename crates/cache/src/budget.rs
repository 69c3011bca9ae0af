//! How much memory the cache may have: a hard budget, which it never exceeds, and a soft one, which it
//! returns to while memory is short.
//!
//! Counted are pages that may be in memory ("held": written since they were last given back to the
//! kernel, so that what the kernel took without a word is counted until that is noticed), frames of the
//! compressed tier, and what is remembered of its entries. The records of pages and the indexes are not:
//! they do not change with what is cached.
//!
//! * B1 A page is noted as held before it is written, and noted as given back after `madvise` said so.
//!   Under the room lock.
//! * B2 Held pages and the tier together are never more than the hard budget: a page that is not held is
//!   handed out only where it fits, and the tier's limit is what held pages leave.

use crate::PAGE_BYTES;
use std::ops::Range;

/// What is held, and what may be. Under the room lock.
pub(crate) struct Budget {
    /// A bit for each page.
    held: Vec<u64>,
    pub held_pages: usize,
    hard_bytes: usize,
    soft_bytes: usize,
    /// The hard budget leaves no room for all pages and a full tier.
    tight: bool,
    /// Bytes by which the cache shrank for the soft budget.
    pub shrunk_bytes: u64,
}

impl Budget {
    /// For a cache of `pages` pages and a tier of `tier_bytes`. No budget is 0.
    pub fn new(pages: usize, tier_bytes: usize, hard_bytes: usize, soft_bytes: usize) -> Budget {
        let all = (pages * PAGE_BYTES).saturating_add(tier_bytes);
        let or_all = |bytes: usize| if bytes == 0 { all } else { bytes.min(all) };
        Budget {
            held: vec![0; pages.div_ceil(64)],
            held_pages: 0,
            hard_bytes: or_all(hard_bytes),
            soft_bytes: or_all(soft_bytes),
            tight: or_all(hard_bytes) < all,
            shrunk_bytes: 0,
        }
    }

    pub fn hard_bytes(&self) -> usize {
        self.hard_bytes
    }

    pub fn soft_bytes(&self) -> usize {
        self.soft_bytes
    }

    pub fn is_tight(&self) -> bool {
        self.tight
    }

    pub fn is_held(&self, slot: u32) -> bool {
        self.held[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// Notes a page as held, if it is or if that leaves the tier what it has.
    pub fn hold(&mut self, slot: u32, tier_bytes: usize) -> bool {
        if self.is_held(slot) {
            return true;
        }
        if (self.held_pages + 1) * PAGE_BYTES + tier_bytes > self.hard_bytes {
            return false;
        }
        self.held[slot as usize / 64] |= 1 << (slot % 64);
        self.held_pages += 1;
        true
    }

    pub fn given_back(&mut self, slots: Range<u32>) {
        for slot in slots {
            if self.is_held(slot) {
                self.held[slot as usize / 64] &= !(1 << (slot % 64));
                self.held_pages -= 1;
            }
        }
    }

    /// What held pages leave to the tier.
    pub fn left_bytes(&self) -> usize {
        self.hard_bytes.saturating_sub(self.held_pages * PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_held_up_to_what_the_tier_leaves() {
        let mut budget = Budget::new(100, 10 * PAGE_BYTES, 20 * PAGE_BYTES, 0);
        assert!(budget.is_tight());
        for slot in 0..15 {
            assert!(budget.hold(slot * 7, 5 * PAGE_BYTES));
            assert!(budget.hold(slot * 7, 20 * PAGE_BYTES), "is held already");
        }
        assert!(!budget.hold(1, 5 * PAGE_BYTES));
        assert_eq!(budget.left_bytes(), 5 * PAGE_BYTES);
        budget.given_back(0..8);
        assert_eq!(budget.held_pages, 13);
        assert!(budget.hold(1, 6 * PAGE_BYTES) && !budget.hold(2, 6 * PAGE_BYTES + 1));
    }

    #[test]
    fn no_budget_is_all_there_can_be() {
        let budget = Budget::new(100, 5000, 0, 0);
        assert!(!budget.is_tight());
        assert_eq!(budget.hard_bytes(), 100 * PAGE_BYTES + 5000);
        assert_eq!(budget.soft_bytes(), budget.hard_bytes());
        assert!(!Budget::new(100, 5000, usize::MAX, 0).is_tight());
    }
}
