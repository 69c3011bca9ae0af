//! Which thread goes next.
//!
//! Each strategy finds other bugs: a uniform choice at every step mixes everything with
//! everything, long quanta let one thread overtake another by far, and priorities with a few
//! changes (as in PCT, Burckhardt et al. 2010) reach the orders that need a thread to be
//! held up at exactly one place for a long time. A strategy holds for an epoch of some thousand
//! steps; then another is drawn.

use crate::random::Random;

/// A way to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Any thread that can run, at every step.
    Uniform,
    /// The same thread, until in one of so many steps another one is drawn.
    Sticky(u32),
    /// The thread of the highest priority; in one of so many steps it falls to the lowest.
    Priorities(u32),
    /// All in turn, so many steps each.
    RoundRobin(u32),
}

impl Strategy {
    /// The one for the next epoch, and the epoch's steps.
    pub fn draw(random: &Random) -> (Self, u64) {
        let strategy = match random.below(8) {
            0..=1 => Self::Uniform,
            2..=4 => Self::Sticky(1 << random.between(1, 7)),
            5..=6 => Self::Priorities(1 << random.between(4, 11)),
            _ => Self::RoundRobin(random.between(1, 24) as u32),
        };
        (strategy, random.between(2_000, 20_000))
    }
}
