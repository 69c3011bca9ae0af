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
//! The least budget that works well is known only after a try.

use crate::own_name;
use crate::size::{format_bytes, parse_bytes};
use crate::sums::as_option;
use coldpress_interface::control::NO_BUDGET;
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
    /// The budget to try, as it is typed; `None`: none that is smaller than the native size will do.
    budget: Option<String>,
}

impl Advice {
    /// For a program as it is now; `None`: it has no budget.
    pub fn of(s: &Statistics) -> Option<Self> {
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
            budget: typed(next, native_bytes),
        })
    }

    /// For a program that runs: the command.
    pub fn while_it_runs(&self) -> String {
        let (coldpress, pid) = (own_name::get(), self.pid);
        match &self.budget {
            Some(budget) => format!("to try: {coldpress} set {pid} budget={budget}"),
            None => format!("no smaller budget will do: {coldpress} set {pid} budget=none"),
        }
    }

    /// For a program that has ended: the option of the next run.
    pub fn for_the_next_run(&self) -> String {
        match &self.budget {
            Some(budget) => format!("to try: --budget {budget}"),
            None => format!(
                "no budget below the {} that it holds natively will do",
                format_bytes(self.native_bytes)
            ),
        }
    }
}

/// A budget as it is typed, of at least so much and less than the native size: in round numbers, where there is room
/// for them.
fn typed(bytes: u64, native_bytes: u64) -> Option<String> {
    let exact = || format!("{}M", bytes.div_ceil(1 << 20));
    let is_less = |text: &String| parse_bytes(text).is_some_and(|bytes| bytes < native_bytes);
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
        let advice = Advice::of(s).unwrap();
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

    #[test]
    fn a_peak_of_before_the_budget_was_set_does_not_count() {
        let lowered = Advice::of(&page(42, 500, 600)).unwrap();
        assert_eq!(lowered.held_bytes, 82 * MIB);
        let raised = page(42, 82, 600);
        raised.budget_bytes.store(100 * MIB, Relaxed);
        assert_eq!(Advice::of(&raised).unwrap().held_bytes, 82 * MIB);
        raised.budget_bytes.store(NO_BUDGET, Relaxed);
        assert_eq!(Advice::of(&raised), None);
    }
}
