//! The budget in force: what was asked for, or less where the memory group allows less. Without one,
//! what the memory group allows; without a limit there, none.
//!
//! A program that grows past the limit of its memory group is killed, whatever budget it was
//! given; so a larger budget would never be kept. The limit counts more than the budget does (page
//! tables, pages of files), and some room is left for that.

use crate::refusal::Refusal;
use crate::size::{SMALLEST_BUDGET_BYTES, format_bytes};
use coldpress_interface::control::{NO_BUDGET, largest_budget};

/// A budget and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetInForce {
    /// Bytes that the program may hold; [`NO_BUDGET`]: as many as it likes.
    pub bytes: u64,
    /// Bytes that were asked for; [`NO_BUDGET`]: nothing was.
    pub asked_bytes: u64,
    /// Limit of the memory group, where it is the reason that less is given.
    pub group_bytes: Option<u64>,
}

impl BudgetInForce {
    /// What is in force where `asked_bytes` were asked for, in a memory group of this limit.
    pub fn of(asked_bytes: u64, group_bytes: Option<u64>) -> Result<Self, Refusal> {
        let group_bytes = group_bytes.filter(|&group| largest_budget(group) < asked_bytes);
        let bytes = group_bytes.map_or(asked_bytes, largest_budget);
        match group_bytes {
            Some(group) if bytes < SMALLEST_BUDGET_BYTES => Err(Refusal::new(format!(
                "the memory group is limited to {}, too little for the smallest budget ({})",
                format_bytes(group),
                format_bytes(SMALLEST_BUDGET_BYTES)
            ))
            .mend("Raise memory.max (memory.limit_in_bytes with cgroup v1) of the group to 16M or more")),
            _ => Ok(Self {
                bytes,
                asked_bytes,
                group_bytes,
            }),
        }
    }

    /// What is to be told before the program starts: nothing where it gets what was asked for, and that may ever matter on a
    /// machine with so much memory.
    pub fn explanation(&self, machine_bytes: impl FnOnce() -> Option<u64>) -> Option<String> {
        if self.group_bytes.is_none()
            && let Some(asked) = self.asked()
            && let Some(machine) = machine_bytes().filter(|&machine| asked > machine)
        {
            return Some(format!(
                "a budget of {} is no limit: this machine has {}",
                format_bytes(self.bytes),
                format_bytes(machine)
            ));
        }
        let group = self.group_bytes?;
        let not = match self.asked_bytes {
            NO_BUDGET => String::new(),
            bytes => format!(", not {}", format_bytes(bytes)),
        };
        Some(format!(
            "the budget is {}{not}: its memory group is limited to {}",
            format_bytes(self.bytes),
            format_bytes(group)
        ))
    }

    /// What was asked for, if anything was.
    pub fn asked(&self) -> Option<u64> {
        (self.asked_bytes != NO_BUDGET).then_some(self.asked_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_allows_less_lowers_the_budget() {
        let of = |asked, group| BudgetInForce::of(asked, group);
        assert_eq!(of(1 << 30, None).unwrap().bytes, 1 << 30);
        let free = of(60 << 20, Some(64 << 20)).unwrap();
        assert_eq!((free.bytes, free.explanation(|| None)), (60 << 20, None));
        let bound = of(1 << 30, Some(64 << 20)).unwrap();
        assert_eq!(bound.bytes, 60 << 20);
        assert_eq!(
            bound.explanation(|| None).unwrap(),
            "the budget is 60.0 MiB, not 1.0 GiB: its memory group is limited to 64.0 MiB"
        );
        let large = of(100 << 30, None).unwrap();
        assert_eq!(large.explanation(|| Some(100 << 30)), None);
        assert_eq!(
            large.explanation(|| Some(24 << 30)).unwrap(),
            "a budget of 100.0 GiB is no limit: this machine has 24.0 GiB"
        );
        assert_eq!(of(1 << 30, Some(8 << 20)).unwrap_err().code(), 125);
        let free = of(NO_BUDGET, None).unwrap();
        assert_eq!(
            (free.bytes, free.explanation(|| None), free.asked()),
            (NO_BUDGET, None, None)
        );
        let bound = of(NO_BUDGET, Some(64 << 20)).unwrap();
        assert_eq!(bound.bytes, 60 << 20);
        assert_eq!(
            bound.explanation(|| None).unwrap(),
            "the budget is 60.0 MiB: its memory group is limited to 64.0 MiB"
        );
    }
}
