//! Levels of memory pressure, from how much memory is free.
//!
//! ```text
//!  free ▲            ┌───────────── normal
//!       ├ warning ───┤      ▲ for a better level: above its bound by the debounce, and not before
//!       ├ critical ──┤      │ the hysteresis time has passed since the last change
//!       ├ out of ────┤      ▼ for a worse one: at once
//!       │ memory     └
//! ```
//!
//! A level is a matter of what to do, so it must not flutter: a page freed and taken again at a bound
//! would start and stop reclaim each time. Getting worse is never delayed.
//!
//! Who measures calls [`Pressure::update`]; the level then says whether pages are reclaimed, and by
//! which trigger ([`Level::trigger`]).

use crate::compression::tunables::Tunables;
use crate::figures::cause::Trigger;

/// How short memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It is not.
    #[default]
    Normal,
    /// Programs should slow down.
    Warning,
    /// Programs should give memory back; pages are reclaimed.
    Critical,
    /// None is left to speak of.
    OutOfMemory,
}

impl Level {
    const ALL: [Self; 4] = [
        Self::Normal,
        Self::Warning,
        Self::Critical,
        Self::OutOfMemory,
    ];

    /// By which trigger pages are reclaimed at this level; `None`: they are not, but for their age.
    pub fn trigger(self, tunables: &Tunables) -> Option<Trigger> {
        match self {
            Self::Normal => None,
            Self::Warning => tunables.evict_at_warning.then_some(Trigger::Pressure),
            Self::Critical => Some(Trigger::Pressure),
            Self::OutOfMemory => Some(Trigger::Critical),
        }
    }
}

/// Where levels begin, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// *Warning* below this many free pages.
    pub warning: u64,
    /// *Critical* below this many.
    pub critical: u64,
    /// *Out of memory* below this many.
    pub out_of_memory: u64,
    /// So many pages above its bound a level is left for a better one.
    pub debounce: u64,
    /// So long after the last change, in nanoseconds.
    pub hysteresis_ns: u64,
}

impl Bounds {
    /// Those that are set.
    pub const fn from_tunables(tunables: &Tunables) -> Self {
        const PAGES_A_MIB: u64 = 256;
        Self {
            warning: tunables.warning_mb * PAGES_A_MIB,
            critical: tunables.critical_mb * PAGES_A_MIB,
            out_of_memory: tunables.out_of_memory_mb * PAGES_A_MIB,
            debounce: tunables.debounce_mb * PAGES_A_MIB,
            hysteresis_ns: tunables.hysteresis_s * 1_000_000_000,
        }
    }

    /// The level begins below this many free pages.
    fn bound(&self, level: Level) -> u64 {
        match level {
            Level::Normal => u64::MAX,
            Level::Warning => self.warning,
            Level::Critical => self.critical,
            Level::OutOfMemory => self.out_of_memory,
        }
    }

    /// The level of so many free pages, if each began so many pages higher.
    fn level(&self, free_pages: u64, higher: u64) -> Level {
        let below = |level: &Level| free_pages < self.bound(*level).saturating_add(higher);
        let worst = Level::ALL.into_iter().rev().find(below);
        worst.unwrap_or_default()
    }
}

/// The level, and when it was reached.
#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    bounds: Bounds,
    level: Level,
    changed_ns: u64,
}

impl Pressure {
    /// No pressure, so far.
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            level: Level::Normal,
            changed_ns: 0,
        }
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Other bounds, from the next update on.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// So many pages are free now. The new level, if it has changed.
    pub fn update(&mut self, free_pages: u64, now_ns: u64) -> Option<Level> {
        let worse = self.bounds.level(free_pages, 0);
        let better = self.bounds.level(free_pages, self.bounds.debounce);
        let rested = now_ns.saturating_sub(self.changed_ns) >= self.bounds.hysteresis_ns;
        let level = if worse > self.level {
            worse
        } else if better < self.level && rested {
            better
        } else {
            return None;
        };
        self.level = level;
        self.changed_ns = now_ns;
        Some(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        warning: 300,
        critical: 150,
        out_of_memory: 50,
        debounce: 10,
        hysteresis_ns: 1000,
    };

    #[test]
    fn getting_worse_is_never_delayed() {
        let mut pressure = Pressure::new(BOUNDS);
        assert_eq!(pressure.update(300, 0), None);
        assert_eq!(pressure.update(299, 0), Some(Level::Warning));
        assert_eq!(pressure.update(150, 0), None);
        assert_eq!(pressure.update(149, 0), Some(Level::Critical));
        assert_eq!(pressure.update(49, 0), Some(Level::OutOfMemory));
        let mut pressure = Pressure::new(BOUNDS);
        assert_eq!(pressure.update(0, 0), Some(Level::OutOfMemory), "at once");
    }

    #[test]
    fn getting_better_takes_the_debounce_and_the_time() {
        let mut pressure = Pressure::new(BOUNDS);
        pressure.update(149, 5000);
        assert_eq!(pressure.update(160, 5999), None, "too soon");
        assert_eq!(pressure.update(159, 6000), None, "too little");
        assert_eq!(pressure.update(160, 6000), Some(Level::Warning));
        assert_eq!(pressure.update(1000, 6999), None);
        assert_eq!(pressure.update(1000, 7000), Some(Level::Normal));
        // Straight from the worst to none.
        pressure.update(0, 8000);
        assert_eq!(pressure.update(310, 9000), Some(Level::Normal));
    }

    #[test]
    fn a_page_to_and_fro_at_a_bound_changes_the_level_once() {
        let mut pressure = Pressure::new(BOUNDS);
        let changes = (0..1000u64)
            .filter(|n| pressure.update(299 + n % 2, n * 1000).is_some())
            .count();
        assert_eq!(changes, 1);
    }

    #[test]
    fn levels_have_their_triggers() {
        let mut tunables = Tunables::DEFAULT;
        let triggers = |t: &Tunables| Level::ALL.map(|level| level.trigger(t));
        let (pressure, critical) = (Some(Trigger::Pressure), Some(Trigger::Critical));
        assert_eq!(triggers(&tunables), [None, None, pressure, critical]);
        tunables.evict_at_warning = true;
        assert_eq!(triggers(&tunables), [None, pressure, pressure, critical]);
        let bounds = Bounds::from_tunables(&tunables);
        assert_eq!(bounds.warning, 300 << 20 >> 12);
        assert!(bounds.out_of_memory < bounds.critical);
    }
}
