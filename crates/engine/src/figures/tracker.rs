//! How many pages something holds, and the most it held since somebody looked: what a VMO can be
//! asked for at any time without a walk through its page list.
//!
//! Written under the lock of whatever it belongs to, so that plain loads and stores do; the number
//! itself may be read without.

use coldpress_arena::Zeroable;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number of pages and its peak. Zeroed memory is an empty one.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PageTracker {
    pages: AtomicU64,
    peak: AtomicU64,
}

// SAFETY: two atomics; zero is valid.
unsafe impl Zeroable for PageTracker {}

impl PageTracker {
    /// No pages.
    pub const fn new() -> Self {
        Self {
            pages: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    /// Pages at this moment.
    pub fn pages(&self) -> u64 {
        self.pages.load(Relaxed)
    }

    /// So many more. Under the owner's lock, as all that follows.
    ///
    /// # Panics
    /// If there would be more than 2^64 - 1.
    pub fn add(&self, pages: u64) {
        let now = self.pages().checked_add(pages);
        self.set(now.expect("more pages than can be counted"));
    }

    /// So many fewer.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn remove(&self, pages: u64) {
        let now = self.pages().checked_sub(pages);
        self.set(now.expect("fewer pages than none"));
    }

    /// So many more, or fewer.
    ///
    /// # Panics
    /// As [`add`](Self::add) and [`remove`](Self::remove).
    pub fn change(&self, pages: i64) {
        match pages < 0 {
            true => self.remove(pages.unsigned_abs()),
            false => self.add(pages.unsigned_abs()),
        }
    }

    fn set(&self, now: u64) {
        self.pages.store(now, Relaxed);
        self.raise_peak(now);
    }

    fn raise_peak(&self, to: u64) {
        if to > self.peak.load(Relaxed) {
            self.peak.store(to, Relaxed);
        }
    }

    /// The most pages there were at a time since this was asked last, and now.
    pub fn take_peak(&self) -> u64 {
        let peak = self.peak.load(Relaxed);
        self.peak.store(self.pages(), Relaxed);
        peak
    }

    /// No pages, and there were none.
    pub fn clear(&self) {
        self.pages.store(0, Relaxed);
        self.peak.store(0, Relaxed);
    }

    /// All of `from`, with its peak, is here from now on; nothing is there. Both owners are locked,
    /// or nobody else knows one of them yet.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    pub fn take_over(&self, from: &Self) {
        let (pages, peak) = (from.pages(), from.take_peak());
        from.clear();
        let had = self.pages();
        self.add(pages);
        self.raise_peak(had.saturating_add(peak));
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
        tracker.change(-2);
        tracker.change(1);
        assert_eq!((tracker.pages(), tracker.take_peak()), (2, 3));
    }

    /// Zircon: `continuous_attribution_tracker_extreme`.
    #[test]
    fn it_counts_to_the_end_of_its_range() {
        let tracker = PageTracker::new();
        tracker.add(u64::MAX);
        assert_eq!((tracker.pages(), tracker.take_peak()), (u64::MAX, u64::MAX));
        tracker.remove(u64::MAX);
        assert_eq!((tracker.pages(), tracker.take_peak()), (0, u64::MAX));
        assert_eq!(tracker.take_peak(), 0);
    }

    #[test]
    #[should_panic(expected = "fewer pages than none")]
    fn it_does_not_go_below_none() {
        let tracker = PageTracker::new();
        tracker.add(1);
        tracker.change(-2);
    }
}
