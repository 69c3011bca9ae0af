//! What the segments of one page list hold together, counted continuously.

use crate::figures::tracker::PageTracker;
use crate::pages::segment::Long;
use coldpress_arena::{Link, Zeroable};
use core::sync::atomic::AtomicU32;

/// Pages of a page list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries that hold a page.
    pub committed_pages: u64,
    /// Entries that remember anything but zeros.
    pub content_pages: u64,
}

/// The count of one page list, under its lock: every segment of it names the account.
#[repr(C)]
pub(crate) struct Account {
    link: AtomicU32,
    committed: PageTracker,
    content: PageTracker,
    /// How often reclaim took a page away.
    reclaimed: Long,
}

// SAFETY: atomics; zero is valid.
unsafe impl Zeroable for Account {}

impl Link for Account {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl Account {
    /// Nothing is held, nor was.
    pub(crate) fn clear(&self) {
        self.committed.clear();
        self.content.clear();
        self.reclaimed.set(0);
    }

    /// Counts a change.
    pub(crate) fn change(&self, committed: i64, content: i64) {
        self.committed.change(committed);
        self.content.change(content);
    }

    /// Counts a page that reclaim took away.
    pub(crate) fn reclaimed(&self) {
        self.reclaimed.set(self.reclaimed.get() + 1);
    }

    /// How often reclaim took a page away.
    pub(crate) fn reclaims(&self) -> u64 {
        self.reclaimed.get()
    }

    /// What was reclaimed for another, which ends, counts here.
    pub(crate) fn inherit_reclaims(&self, from: &Self) {
        self.reclaimed
            .set(self.reclaimed.get() + from.reclaimed.get());
    }

    pub(crate) fn now(&self) -> Usage {
        Usage {
            committed_pages: self.committed.pages(),
            content_pages: self.content.pages(),
        }
    }

    /// The highest values since this was called last.
    pub(crate) fn take_peak(&self) -> Usage {
        Usage {
            committed_pages: self.committed.take_peak(),
            content_pages: self.content.take_peak(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account {
            link: AtomicU32::new(0),
            committed: PageTracker::new(),
            content: PageTracker::new(),
            reclaimed: Long::default(),
        }
    }

    #[test]
    fn a_new_account_is_zero_and_so_is_its_peak() {
        let account = account();
        assert_eq!(account.now(), Usage::default());
        assert_eq!(account.take_peak(), Usage::default());
    }

    #[test]
    fn the_peak_is_the_highest_value_since_it_was_last_read() {
        let account = account();
        let committed = |pages| Usage {
            committed_pages: pages,
            content_pages: 0,
        };
        account.change(5, 0);
        account.change(-3, 0);
        assert_eq!(account.now(), committed(2));
        assert_eq!(account.take_peak(), committed(5));
        assert_eq!(account.take_peak(), committed(2));
        account.change(1, 0);
        account.change(-3, 0);
        assert_eq!(account.take_peak(), committed(3));
        assert_eq!(account.now(), committed(0));
    }

    #[test]
    fn more_pages_than_32_bits_can_count_are_counted() {
        let account = account();
        account.change(i64::from(u32::MAX) + 1, i64::from(u32::MAX));
        let most = Usage {
            committed_pages: 1 << 32,
            content_pages: (1 << 32) - 1,
        };
        assert_eq!((account.now(), account.take_peak()), (most, most));
    }
}
