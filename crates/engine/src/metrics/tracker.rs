//! How many pages something holds, and the most it held since somebody looked: what a VMO can be
//! asked for at any time without a walk through its page list.
//!
//! Written under the lock of whatever it belongs to, read without.

use coldpress_arena::Zeroable;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A number of pages and its peak. Zeroed memory is an empty one.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PageTracker {
    pages: AtomicU32,
    peak: AtomicU32,
}

// SAFETY: two atomics; zero is valid.
unsafe impl Zeroable for PageTracker {}

impl PageTracker {
    /// No pages.
    pub const fn new() -> Self {
        Self {
            pages: AtomicU32::new(0),
            peak: AtomicU32::new(0),
        }
    }

    /// Pages at this moment.
    pub fn pages(&self) -> u32 {
        self.pages.load(Relaxed)
    }

    /// So many more. Under the owner's lock, as all that follows.
    ///
    /// # Panics
    /// If there would be more than 2^32 - 1.
    pub fn add(&self, pages: u32) {
        let now = self.pages().checked_add(pages);
        let now = now.expect("more pages than can be counted");
        self.pages.store(now, Relaxed);
        self.peak.fetch_max(now, Relaxed);
    }

    /// So many fewer.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn remove(&self, pages: u32) {
        let now = self.pages().checked_sub(pages);
        self.pages
            .store(now.expect("fewer pages than none"), Relaxed);
    }

    /// The most pages there were at a time since this was asked last, and now.
    pub fn take_peak(&self) -> u32 {
        let now = self.pages();
        self.peak.swap(now, Relaxed).max(now)
    }

    /// All of `from`, with its peak, is here from now on; nothing is there. Both owners are locked,
    /// or nobody else knows one of them yet.
    pub fn take_over(&self, from: &Self) {
        let (pages, peak) = (from.pages.swap(0, Relaxed), from.peak.swap(0, Relaxed));
        let had = self.pages();
        self.add(pages);
        self.peak.fetch_max(had.saturating_add(peak), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zircon: `continuous_attribution_tracker_create`.
    #[test]
    fn a_new_one_is_empty() {
        let tracker = PageTracker::new();
        assert_eq!((tracker.pages(), tracker.take_peak()), (0, 0));
    }

    /// Zircon: `continuous_attribution_tracker_transfer`.
    #[test]
    fn what_is_taken_over_is_gone_there() {
        let (from, to) = (PageTracker::new(), PageTracker::new());
        from.add(7);
        from.remove(4);
        to.take_over(&from);
        assert_eq!((to.pages(), to.take_peak()), (3, 7));
        assert_eq!((from.pages(), from.take_peak()), (0, 0));
    }

    /// Zircon: `continuous_attribution_tracker_high_water_mark`.
    #[test]
    fn the_peak_is_that_since_it_was_read() {
        let tracker = PageTracker::new();
        tracker.add(5);
        tracker.remove(3);
        tracker.add(1);
        assert_eq!(tracker.take_peak(), 5);
        assert_eq!(tracker.take_peak(), 3, "what is there now");
        tracker.remove(2);
        tracker.add(1);
        assert_eq!((tracker.pages(), tracker.take_peak()), (2, 3));
    }

    /// Zircon: `continuous_attribution_tracker_extreme`.
    #[test]
    fn it_counts_to_the_end_of_its_range() {
        let tracker = PageTracker::new();
        tracker.add(u32::MAX);
        assert_eq!((tracker.pages(), tracker.take_peak()), (u32::MAX, u32::MAX));
        tracker.remove(u32::MAX);
        assert_eq!((tracker.pages(), tracker.take_peak()), (0, u32::MAX));
        assert_eq!(tracker.take_peak(), 0);
    }
}
