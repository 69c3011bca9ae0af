//! What a run comes to: averages of memory over time, and for how long the budget was not kept.
//!
//! Each measurement of the reclaim thread closes an interval of time. An average counts the mean of the values at
//! its two ends, as long as it lasted; the budget is the one that was in force at its end, so neither a peak from
//! before `coldpress set` nor one from after it is held against another budget.
//!
//! A budget that was lowered is met as fast as pages can go. While memory comes down it is not above
//! the budget in the sense that is told here; when it has not come further down for `SETTLED_NS`, it is.
//!
//! I1: an interval is counted once, by who takes its beginning (`last_ns`): the reclaim thread, or the thread
//! that ends the program. No lock: figures of one moment may be one interval apart from each other.

use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::statistics::Statistics;
use coldpress_uffd::PAGE_SIZE;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Memory that has not come further down for so long does not come down any more.
const SETTLED_NS: u64 = 500_000_000;

/// Sums are of pages times units of 1,024 µs: 1 TiB for two years fits into a word.
const UNIT_BITS: u32 = 10;

/// The sums so far.
#[derive(Debug)]
pub struct Account {
    /// When the last interval ended; 0: there was no measurement yet.
    last_ns: AtomicU64,
    last_total_bytes: AtomicU64,
    last_content_bytes: AtomicU64,
    managed_ns: AtomicU64,
    total_sum: AtomicU64,
    content_sum: AtomicU64,
    budgeted_ns: AtomicU64,
    above_ns: AtomicU64,
    most_above_bytes: AtomicU64,
    /// Of that, against the budget of the last interval.
    most_above_present_bytes: AtomicU64,
    /// The budget of the last interval.
    budget_bytes: AtomicU64,
    /// Since when memory comes down to a lowered budget no further; 0: it is not on its way.
    lowest_ns: AtomicU64,
    lowest_bytes: AtomicU64,
    /// Processor time of the process before the pager was in it.
    process_cpu_before_ns: AtomicU64,
    process_user_before_ns: AtomicU64,
}

impl Account {
    /// Of nothing.
    pub const fn new() -> Self {
        Self {
            last_ns: AtomicU64::new(0),
            last_total_bytes: AtomicU64::new(0),
            last_content_bytes: AtomicU64::new(0),
            managed_ns: AtomicU64::new(0),
            total_sum: AtomicU64::new(0),
            content_sum: AtomicU64::new(0),
            budgeted_ns: AtomicU64::new(0),
            above_ns: AtomicU64::new(0),
            most_above_bytes: AtomicU64::new(0),
            most_above_present_bytes: AtomicU64::new(0),
            budget_bytes: AtomicU64::new(NO_BUDGET),
            lowest_ns: AtomicU64::new(0),
            lowest_bytes: AtomicU64::new(0),
            process_cpu_before_ns: AtomicU64::new(0),
            process_user_before_ns: AtomicU64::new(0),
        }
    }

    /// Begins anew, in a process that has no pager's threads yet.
    pub(crate) fn begin(&self, process_cpu_ns: u64, process_user_ns: u64) {
        for word in [
            &self.last_ns,
            &self.managed_ns,
            &self.total_sum,
            &self.content_sum,
            &self.budgeted_ns,
            &self.above_ns,
            &self.most_above_bytes,
            &self.most_above_present_bytes,
            &self.lowest_ns,
        ] {
            word.store(0, Relaxed);
        }
        self.budget_bytes.store(NO_BUDGET, Relaxed);
        self.process_cpu_before_ns.store(process_cpu_ns, Relaxed);
        self.process_user_before_ns.store(process_user_ns, Relaxed);
    }

    /// Memory held and content, as last measured: by the parent, in the child of a fork that has measured nothing.
    pub(crate) fn last_bytes(&self) -> (u64, u64) {
        (
            self.last_total_bytes.load(Relaxed),
            self.last_content_bytes.load(Relaxed),
        )
    }

    /// Processor time of the process when the pager came into it.
    pub(crate) fn process_cpu_before_ns(&self) -> u64 {
        self.process_cpu_before_ns.load(Relaxed)
    }

    /// User time of it, of the process when the pager came into it.
    pub(crate) fn process_user_before_ns(&self) -> u64 {
        self.process_user_before_ns.load(Relaxed)
    }

    /// Takes note of a measurement, with the budget that is to be kept ([`NO_BUDGET`]: none).
    pub(crate) fn observe(&self, now_ns: u64, total_bytes: u64, content_bytes: u64, budget: u64) {
        let last = self.last_ns.swap(now_ns, Relaxed);
        let total_before = self.last_total_bytes.swap(total_bytes, Relaxed);
        let content_before = self.last_content_bytes.swap(content_bytes, Relaxed);
        if last == 0 {
            // Memory that is inherited is not above the budget because of this process.
            self.watch(now_ns, total_bytes, budget);
            return;
        }
        let gap_ns = now_ns.saturating_sub(last);
        add(&self.managed_ns, gap_ns);
        add(&self.total_sum, product(total_before, total_bytes, gap_ns));
        add(
            &self.content_sum,
            product(content_before, content_bytes, gap_ns),
        );
        if budget == NO_BUDGET {
            self.take_budget(NO_BUDGET);
            return;
        }
        add(&self.budgeted_ns, gap_ns);
        let settling = self.watch(now_ns, total_bytes, budget);
        if total_bytes > budget && !settling {
            add(&self.above_ns, gap_ns);
            let above = total_bytes - budget;
            self.most_above_bytes.fetch_max(above, Relaxed);
            self.most_above_present_bytes.fetch_max(above, Relaxed);
        }
    }

    /// Takes note of the budget in force; returns the one before. What was above that one is not above this one.
    fn take_budget(&self, budget: u64) -> u64 {
        let before = self.budget_bytes.swap(budget, Relaxed);
        if budget != before {
            self.most_above_present_bytes.store(0, Relaxed);
        }
        before
    }

    /// Whether memory is coming down to a budget that was lowered.
    fn watch(&self, now_ns: u64, total_bytes: u64, budget: u64) -> bool {
        let before = self.take_budget(budget);
        if budget < before {
            self.lowest_ns.store(now_ns, Relaxed);
            self.lowest_bytes.store(total_bytes, Relaxed);
        }
        let since = self.lowest_ns.load(Relaxed);
        if since == 0 {
            return false;
        }
        if total_bytes < self.lowest_bytes.load(Relaxed) {
            self.lowest_bytes.store(total_bytes, Relaxed);
            self.lowest_ns.store(now_ns, Relaxed);
            if total_bytes > budget {
                return true;
            }
        }
        let goes_on = total_bytes > budget && now_ns.saturating_sub(since) <= SETTLED_NS;
        if !goes_on {
            self.lowest_ns.store(0, Relaxed);
        }
        goes_on
    }

    /// Brings the statistics page up to date.
    pub(crate) fn publish(&self, s: &Statistics) {
        let managed_ns = self.managed_ns.load(Relaxed);
        s.managed_ns.store(managed_ns, Relaxed);
        s.average_total_bytes
            .store(average(self.total_sum.load(Relaxed), managed_ns), Relaxed);
        s.average_content_bytes
            .store(average(self.content_sum.load(Relaxed), managed_ns), Relaxed);
        s.budgeted_ns.store(self.budgeted_ns.load(Relaxed), Relaxed);
        s.above_budget_ns
            .store(self.above_ns.load(Relaxed), Relaxed);
        s.most_above_budget_bytes
            .store(self.most_above_bytes.load(Relaxed), Relaxed);
        s.most_above_present_budget_bytes
            .store(self.most_above_present_bytes.load(Relaxed), Relaxed);
    }
}

impl Default for Account {
    fn default() -> Self {
        Self::new()
    }
}

fn add(word: &AtomicU64, more: u64) {
    word.fetch_add(more, Relaxed);
}

/// Memory that went from `before` to `after` within the gap, times the gap.
fn product(before: u64, after: u64, gap_ns: u64) -> u64 {
    let pages = (before + after) / 2 / PAGE_SIZE as u64;
    let product = u128::from(pages) * u128::from(gap_ns / 1000);
    (product >> UNIT_BITS) as u64
}

/// The average of what came to such a sum in so much time, in bytes.
fn average(sum: u64, managed_ns: u64) -> u64 {
    let bytes = (u128::from(sum) * PAGE_SIZE as u128) << UNIT_BITS;
    bytes
        .checked_div(u128::from(managed_ns / 1000))
        .unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;

    /// Measurements: milliseconds, memory held, budget.
    fn account(measurements: &[(u64, u64, u64)]) -> Statistics {
        let account = Account::new();
        for &(ms, total, budget) in measurements {
            let budget = match budget {
                0 => NO_BUDGET,
                mib => mib * MIB,
            };
            account.observe(MS * (1000 + ms), total * MIB, 2 * total * MIB, budget);
        }
        let s = Statistics::new();
        account.publish(&s);
        s
    }

    fn get(word: &AtomicU64) -> u64 {
        word.load(Relaxed)
    }

    #[test]
    fn averages_are_weighted_with_time() {
        let s = account(&[(0, 100, 0), (10, 100, 0), (10, 40, 0), (100, 40, 0)]);
        assert_eq!(get(&s.managed_ns), 100 * MS);
        let average = get(&s.average_total_bytes) as f64 / MIB as f64;
        assert!((average - 46.0).abs() < 0.1, "{average}");
        let average = get(&s.average_content_bytes) as f64 / MIB as f64;
        assert!((average - 92.0).abs() < 0.2, "{average}");
        assert_eq!(get(&s.budgeted_ns), 0);
        assert_eq!(get(&account(&[(0, 100, 0)]).average_total_bytes), 0);
    }

    /// Two years of a terabyte fit.
    #[test]
    fn sums_do_not_overflow() {
        let day = product(1 << 40, 1 << 40, 86_400_000_000_000);
        assert!(day.checked_mul(730).is_some());
        assert_eq!(average(day, 86_400_000_000_000), 1 << 40);
    }

    #[test]
    fn time_above_is_measured_against_the_budget_of_that_time() {
        let s = account(&[(0, 50, 60), (10, 70, 60), (20, 50, 60), (30, 50, 60)]);
        assert_eq!(
            (get(&s.above_budget_ns), get(&s.budgeted_ns)),
            (10 * MS, 30 * MS)
        );
        assert_eq!(get(&s.most_above_budget_bytes), 10 * MIB);
        let s = account(&[(0, 90, 0), (10, 90, 100), (20, 50, 100), (30, 50, 60)]);
        assert_eq!(get(&s.above_budget_ns), 0, "a peak of another time");
        assert_eq!(get(&s.budgeted_ns), 30 * MS);
    }

    /// Story: 66 MiB were above 20 MiB, then above 60, and were said to have been 46 MiB above these.
    #[test]
    fn what_was_above_an_earlier_budget_is_not_above_the_present_one() {
        // It has settled.
        let first = [(0, 66, 20), (10, 66, 20), (700, 66, 20)];
        let above = |more: &[(u64, u64, u64)]| {
            let s = account(&[&first, more].concat());
            let found = [
                &s.most_above_budget_bytes,
                &s.most_above_present_budget_bytes,
            ];
            found.map(|word| get(word) / MIB)
        };
        assert_eq!(above(&[]), [46, 46]);
        assert_eq!(above(&[(710, 66, 60), (720, 66, 60)]), [46, 6]);
        assert_eq!(above(&[(710, 66, 150)]), [46, 0]);
        assert_eq!(above(&[(710, 66, 0)]), [46, 0], "there is none");
        assert_eq!(above(&[(710, 66, 0), (720, 66, 20)]), [46, 0], "it settles");
    }

    #[test]
    fn coming_down_to_a_lowered_budget_is_no_miss() {
        let down = [
            (0, 100, 0),
            (10, 100, 60),
            (400, 90, 60),
            (800, 70, 60),
            (1200, 60, 60),
        ];
        let s = account(&down);
        assert_eq!(get(&s.above_budget_ns), 0);
        assert_eq!(get(&s.most_above_budget_bytes), 0);
        let stuck = [
            (0, 100, 0),
            (10, 100, 60),
            (100, 80, 60),
            (500, 80, 60),
            (700, 80, 60),
        ];
        let s = account(&stuck);
        assert_eq!(get(&s.above_budget_ns), 200 * MS);
        assert_eq!(get(&s.most_above_budget_bytes), 20 * MIB);
        let again = [(0, 100, 60), (10, 50, 60), (20, 80, 60), (30, 80, 60)];
        assert_eq!(get(&account(&again).above_budget_ns), 20 * MS, "it was met");
    }
}
