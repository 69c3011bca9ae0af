//! Between which amounts of memory the pager keeps a budget: pages are taken above the lower one until memory stands below
//! it, and faults wait above the highest.

use crate::settings::config::Config;
use coldpress_engine::Trigger;
use coldpress_interface::control::NO_BUDGET;

/// Amounts of memory, in bytes, by which the pager acts.
pub(crate) struct Watermarks {
    low: u64,
    pub(crate) high: u64,
    /// From here on faults wait for reclaim.
    pub(crate) wait: u64,
    budget: u64,
}

impl Watermarks {
    pub(crate) fn of(budget: u64) -> Self {
        let margin = (budget / 32).clamp(1 << 20, 16 << 20).min(budget);
        Self {
            low: budget - margin,
            high: budget - margin / 2,
            wait: match margin > 4 << 20 {
                true => budget - margin / 4,
                false => budget,
            },
            budget,
        }
    }

    /// Those of the budget in force. Where no trigger may act for it, it is none.
    pub(crate) fn in_force(config: &Config) -> Self {
        let kept = config.allows(Trigger::Pressure) || config.allows(Trigger::Critical);
        Self::of(if kept { config.budget_bytes } else { NO_BUDGET })
    }

    /// Why pages are taken at this much memory, if they may be. Above the budget itself, where the
    /// promise is broken until they are gone and faults are made to wait, it is critical; where
    /// that trigger is switched off, pressure goes on in its place.
    pub(crate) fn trigger(&self, total: u64, config: &Config) -> Option<Trigger> {
        let critical = total > self.budget && config.allows(Trigger::Critical);
        match critical {
            true => Some(Trigger::Critical),
            false => {
                (total > self.low && config.allows(Trigger::Pressure)).then_some(Trigger::Pressure)
            }
        }
    }

    /// The budget.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    /// Whether memory stands where pages are taken for the budget.
    pub(crate) fn is_near(&self, total: u64) -> bool {
        total > self.low
    }

    /// Whether memory stands so far below the budget that what comes back now takes no other page's place soon.
    pub(crate) fn is_roomy(&self, total: u64) -> bool {
        let margin = self.budget - self.low;
        total.saturating_add(margin) <= self.low
    }

    /// How long a page has to prove itself hot: the further above the budget, the less, and least where faults
    /// wait: they would for as long.
    pub(crate) fn hurry_ns(&self, total: u64, somebody_waits: bool) -> u64 {
        match total.saturating_sub(self.budget) {
            _ if somebody_waits => 500_000,
            0 => 20_000_000,
            over if over < self.budget / 64 => 5_000_000,
            _ => 500_000,
        }
    }

    /// Whether faults wait for reclaim at this much memory.
    pub(crate) fn waits(&self, total: u64, config: &Config) -> bool {
        total > self.wait && self.trigger(total, config).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pager;
    use coldpress_interface::triggers::Triggers;

    static PAGER: Pager = Pager::new();

    #[test]
    fn a_budget_below_the_margin_has_marks_in_order() {
        for budget in [0, 1, 4096, (1 << 20) - 1, 1 << 20] {
            let marks = Watermarks::of(budget);
            assert!(
                marks.low <= marks.high && marks.high <= marks.wait,
                "{budget}"
            );
            assert_eq!((marks.low, marks.wait), (0, budget));
        }
    }

    #[test]
    fn above_the_budget_it_is_critical() {
        let config = PAGER.config();
        let watermarks = Watermarks::of(64 << 20);
        assert!(watermarks.low < watermarks.high && watermarks.high < watermarks.budget);
        let trigger = |total| watermarks.trigger(total, &config);
        assert_eq!(trigger(watermarks.low), None);
        assert_eq!(trigger(watermarks.high + 1), Some(Trigger::Pressure));
        assert_eq!(trigger(watermarks.budget), Some(Trigger::Pressure));
        assert_eq!(trigger(watermarks.budget + 1), Some(Trigger::Critical));
    }

    #[test]
    fn a_set_has_room_well_below_the_mark_where_pages_are_taken() {
        let watermarks = Watermarks::of(64 << 20);
        assert!(watermarks.is_roomy(60 << 20) && !watermarks.is_roomy((60 << 20) + 1));
        assert!(!watermarks.is_roomy(u64::MAX) && Watermarks::of(NO_BUDGET).is_roomy(1 << 40));
    }

    #[test]
    fn pages_have_less_time_where_somebody_waits() {
        let watermarks = Watermarks::of(64 << 20);
        let ms =
            [0, 1 << 19, 1 << 20].map(|over| watermarks.hurry_ns(watermarks.budget + over, false));
        assert_eq!(ms, [20_000_000, 5_000_000, 500_000]);
        assert_eq!(watermarks.hurry_ns(watermarks.low, true), 500_000);
    }

    #[test]
    fn a_trigger_that_is_switched_off_takes_nothing() {
        let config = |triggers| Config {
            triggers,
            budget_bytes: 64 << 20,
            ..PAGER.config()
        };
        let watermarks = Watermarks::of(64 << 20);
        let (near, above) = (watermarks.budget, watermarks.budget + 1);
        let critical = config(Triggers::CRITICAL);
        assert_eq!(watermarks.trigger(near, &critical), None);
        assert_eq!(
            watermarks.trigger(above, &critical),
            Some(Trigger::Critical)
        );
        assert!(!watermarks.waits(near, &critical) && watermarks.waits(above, &critical));
        let pressure = config(Triggers::PRESSURE);
        assert_eq!(
            watermarks.trigger(above, &pressure),
            Some(Trigger::Pressure)
        );
        let eager = config(Triggers::EAGER);
        assert_eq!(watermarks.trigger(above, &eager), None);
        assert_eq!(Watermarks::in_force(&eager).budget, NO_BUDGET);
        assert_eq!(Watermarks::in_force(&critical).budget, 64 << 20);
    }

    /// What is computed with a budget must not overflow where there is none.
    #[test]
    fn without_a_budget_there_is_always_room() {
        let watermarks = Watermarks::of(NO_BUDGET);
        let config = PAGER.config();
        for total in [0, 1 << 20, 1 << 46] {
            assert_eq!(watermarks.trigger(total, &config), None);
            assert!(!watermarks.waits(total, &config) && !watermarks.is_near(total));
        }
    }
}
