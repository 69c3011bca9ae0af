//! Chaos: pages are taken out at random, whatever their heat and whatever the budget.
//!
//! It finds what goes wrong only when a page is away at the wrong moment; the seed, which is told at the
//! end, makes a run like the last one. (Not the same one: threads, and so what is there to be taken,
//! are the machine's.) Each round is of a kind that the generator draws:
//!
//! | kind | takes |
//! |---|---|
//! | scattered | pages here and there, alone |
//! | runs | pages here and there, each with its neighbours |
//! | sweep | all there is, the oldest first: so no page stays for ever |

use crate::Pager;
use crate::machine::os::Os;
use crate::settings::config::Config;
use coldpress_engine::queues::random::RandomPick;
use coldpress_engine::{Ageing, Pace};

/// Of the pages that a scattered round can pick, in percent: some sixty.
const SCATTERED_PERCENT: u64 = 25;
/// Of the pages that a round of runs can pick, in percent: some eight, of which each brings up to 64.
const RUNS_PERCENT: u64 = 3;
/// A page that did not compress is tried again after this long: its content may be another one.
pub(crate) const RETRY_NS: u64 = 1_000_000_000;
/// Ageing so often makes every page inactive: two generations are active, one is being filled.
const AGEINGS: usize = 3;

/// A kind of round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Scattered,
    Runs,
    Sweep,
}

/// Draws the rounds.
#[derive(Debug)]
pub(crate) struct Chaos {
    random: RandomPick,
}

impl Chaos {
    const fn new(seed: u64) -> Self {
        Self {
            random: RandomPick::new(seed),
        }
    }

    /// With the seed that was asked for. A forked child has one of its own, which follows from it.
    pub(crate) fn in_this_process<O: Os>(config: &Config) -> Self {
        let own = u64::from(O::process_id());
        let child = if own == u64::from(config.root_pid) {
            0
        } else {
            own
        };
        Self::new(config.chaos.unwrap_or(0).wrapping_add(child << 32))
    }

    /// Sweeps bring most pages for their time, scattered rounds the fewest: single pages cost as much
    /// as runs.
    fn kind(&mut self) -> Kind {
        match self.random.draw() % 16 {
            0 => Kind::Scattered,
            1..=5 => Kind::Runs,
            _ => Kind::Sweep,
        }
    }

    /// Makes the queues ready for a round. The next batch takes what was last touched before the time
    /// that is returned; what was picked goes whatever that time is.
    pub(crate) fn prepare<O: Os>(&mut self, pager: &Pager<O>, ageing: &Ageing) -> u64 {
        let kind = self.kind();
        let engine = &pager.engine;
        if kind != Kind::Scattered {
            for _ in 0..AGEINGS {
                engine.age(pager, ageing, Pace::Pressed);
            }
        }
        let share = match kind {
            Kind::Scattered => SCATTERED_PERCENT,
            Kind::Runs => RUNS_PERCENT,
            Kind::Sweep => return u64::MAX,
        };
        // Its own generator each time: a new one may pick however few pages came since.
        match engine.pick_random(&mut RandomPick::new(self.random.draw()), share) {
            0 => u64::MAX,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_says_which_rounds_come() {
        let kinds = |seed| {
            let mut chaos = Chaos::new(seed);
            [(); 200].map(|()| chaos.kind())
        };
        assert_eq!(kinds(7), kinds(7));
        assert_ne!(kinds(7), kinds(8));
        for kind in [Kind::Scattered, Kind::Runs, Kind::Sweep] {
            assert!(kinds(7).iter().filter(|&&k| k == kind).count() >= 5);
        }
    }
}
