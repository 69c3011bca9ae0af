//! The budget to try, where the one in force is too small or keeps the program waiting.
//!
//! The messages of a running program (`notices`), `status` and the summary of `run` (`closing`) all take it from
//! here, so that at one time there is one number. It is the larger of two:
//!
//! * What was held above the budget in force, and a thirty-second more, since the pager begins to evict that far
//!   below a budget. A peak from before the budget was lowered says nothing of it and does not count.
//! * The middle between the budget and what the program holds natively. Where everything is compressed that can be,
//!   the memory held is the least that is possible, and a program that holds the least waits for its pages most of
//!   the time.
//!
//! The least budget that works well is known only after a try. A budget that the memory group does not allow would not
//! be in force: then the largest that it allows is suggested, or a larger limit where that is in force already.

use crate::own_name;
use crate::size::{format_bytes, parse_bytes};
use crate::sums::as_option;
use coldpress_interface::control::{NO_BUDGET, largest_budget};
use coldpress_interface::statistics::Statistics;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What to do about a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pid: u64,
    /// The most that was held against the budget in force.
    pub held_bytes: u64,
    /// The most that the program would have held natively.
    pub native_bytes: u64,
    next: Next,
}

/// The budget to try, as it is typed, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// It should do.
    Enough(String),
    /// The largest that the memory group allows, which is less.
    Largest(String),
    /// None that is smaller than the native size will do.
    None,
    /// The largest that the memory group allows is in force. The limit of the group.
    Group(u64),
}

impl Advice {
    /// For a program as it is now, in a memory group of this limit, if there is one; `None`: it has no budget.
    pub fn of(s: &Statistics, group_bytes: Option<u64>) -> Option<Self> {
        let get = |word: &AtomicU64| word.load(Relaxed);
        let budget = get(&s.budget_bytes);
        if budget == NO_BUDGET {
            return None;
        }
        let above = budget.saturating_add(get(&s.most_above_present_budget_bytes));
        let held_bytes = get(&s.peak_total_bytes).min(above);
        let native_bytes = get(&s.peak_content_bytes).max(get(&s.content_bytes));
        let enough = held_bytes / 31 * 32;
        let next = enough.max(budget.midpoint(native_bytes.max(budget)));
        Some(Self {
            pid: get(&s.pid),
            held_bytes,
            native_bytes,
            next: Next::of(next, native_bytes, budget, group_bytes),
        })
    }

    /// For a program that runs: the command.
    pub fn while_it_runs(&self) -> String {
        let (coldpress, pid) = (own_name::get(), self.pid);
        match &self.next {
            Next::Enough(budget) => format!("to try: {coldpress} set {pid} budget={budget}"),
            Next::Largest(budget) => {
                format!("to try: {coldpress} set {pid} budget={budget} (its group allows no more)")
            }
            Next::None => format!("no smaller budget will do: {coldpress} set {pid} budget=none"),
            Next::Group(limit) => raise(*limit),
        }
    }

    /// For a program that has ended: the option of the next run.
    pub fn for_the_next_run(&self) -> String {
        match &self.next {
            Next::Enough(budget) => format!("to try: --budget {budget}"),
            Next::Largest(budget) => {
                format!("to try: --budget {budget} (its memory group allows no more)")
            }
            Next::None => format!(
                "no budget below the {} that it holds natively will do",
                format_bytes(self.native_bytes)
            ),
            Next::Group(limit) => raise(*limit),
        }
    }
}

fn raise(limit: u64) -> String {
    format!(
        "its memory group allows no more: raise its limit of {}",
        format_bytes(limit)
    )
}

impl Next {
    /// For a program that needs so much, where `budget` is in force.
    fn of(needed: u64, native_bytes: u64, budget: u64, group_bytes: Option<u64>) -> Self {
        const MIB: u64 = 1 << 20;
        let largest = group_bytes.map_or(u64::MAX, largest_budget);
        if let Some(text) = typed(needed, native_bytes, largest) {
            return Self::Enough(text);
        }
        match group_bytes.filter(|_| needed.next_multiple_of(MIB) > largest) {
            None => Self::None,
            // In whole MiB, which may be none more.
            Some(_) if largest / MIB * MIB > budget => Self::Largest(format!("{}M", largest / MIB)),
            Some(limit) => Self::Group(limit),
        }
    }
}

/// A budget as it is typed, of at least so much, less than the native size and no more than the largest allowed one: in
/// round numbers, where there is room for them.
fn typed(bytes: u64, native_bytes: u64, largest: u64) -> Option<String> {
    let exact = || format!("{}M", bytes.div_ceil(1 << 20));
    let is_less = |text: &String| {
        parse_bytes(text).is_some_and(|bytes| bytes < native_bytes && bytes <= largest)
    };
    Some(as_option(bytes))
        .filter(is_less)
        .or_else(|| Some(exact()).filter(is_less))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A program with a budget of 40 MiB, that held so much at most, against it and ever.
    fn page(above: u64, peak: u64, native: u64) -> Statistics {
        let s = Statistics::new();
        s.pid.store(4242, Relaxed);
        s.budget_bytes.store(40 * MIB, Relaxed);
        s.most_above_budget_bytes.store(above * MIB, Relaxed);
        s.most_above_present_budget_bytes
            .store(above * MIB, Relaxed);
        s.peak_total_bytes.store(peak * MIB, Relaxed);
        s.peak_content_bytes.store(native * MIB, Relaxed);
        s
    }

    fn told(s: &Statistics) -> [String; 2] {
        told_within(s, None)
    }

    fn told_within(s: &Statistics, group_bytes: Option<u64>) -> [String; 2] {
        let advice = Advice::of(s, group_bytes).unwrap();
        [advice.while_it_runs(), advice.for_the_next_run()]
    }

    #[test]
    fn what_was_held_is_enough_and_the_middle_is_the_least_to_try() {
        let same = |budget: &str| {
            [
                format!("to try: coldpress set 4242 budget={budget}"),
                format!("to try: --budget {budget}"),
            ]
        };
        assert_eq!(told(&page(42, 82, 100)), same("88M"));
        assert_eq!(told(&page(0, 40, 88)), same("64M"));
        // No more than natively, for a round number.
        assert_eq!(told(&page(42, 82, 87)), same("85M"));
        assert_eq!(told(&page(42, 82, 200)), same("120M"));
        let none = told(&page(42, 82, 84));
        assert_eq!(
            none[0],
            "no smaller budget will do: coldpress set 4242 budget=none"
        );
        assert_eq!(
            none[1],
            "no budget below the 84.0 MiB that it holds natively will do"
        );
    }

    /// A budget was suggested that `run` and `set` lower at once, since the memory group has less.
    #[test]
    fn no_more_is_suggested_than_the_memory_group_allows() {
        let within = |group_mib: u64| told_within(&page(42, 82, 100), Some(group_mib * MIB));
        assert_eq!(within(96)[1], "to try: --budget 88M");
        // Of 92 MiB, 86.25 are allowed, and 85 are enough.
        assert_eq!(within(92)[1], "to try: --budget 85M");
        assert_eq!(
            within(64),
            [
                "to try: coldpress set 4242 budget=60M (its group allows no more)",
                "to try: --budget 60M (its memory group allows no more)",
            ]
        );
        let raise = "its memory group allows no more: raise its limit of 42.0 MiB";
        assert_eq!(within(42), [raise, raise]);
        // Whatever the group allows: natively it holds less.
        assert_eq!(
            told_within(&page(42, 82, 84), Some(100 * MIB)),
            told(&page(42, 82, 84))
        );
    }

    #[test]
    fn a_peak_of_before_the_budget_was_set_does_not_count() {
        let lowered = Advice::of(&page(42, 500, 600), None).unwrap();
        assert_eq!(lowered.held_bytes, 82 * MIB);
        let raised = page(42, 82, 600);
        raised.budget_bytes.store(100 * MIB, Relaxed);
        assert_eq!(Advice::of(&raised, None).unwrap().held_bytes, 82 * MIB);
        raised.budget_bytes.store(NO_BUDGET, Relaxed);
        assert_eq!(Advice::of(&raised, None), None);
    }
}
