//! What a run did: steps, worlds, how often each kind of fault fired.

use crate::inject::Kind;
use crate::mode::Mode;
use crate::schedule::Simulation;
use crate::settings::Settings;
use std::fmt;

/// Below so many steps a kind may not have fired by chance.
pub const STEPS_FOR_EVERY_KIND: u64 = 1_000_000;

/// What a run did.
#[derive(Clone, Debug)]
pub struct Report {
    /// The machine.
    pub mode: Mode,
    /// Everything followed from it.
    pub seed: u64,
    /// Steps of all worlds.
    pub steps: u64,
    /// Worlds.
    pub worlds: u64,
    /// A word that depends on everything that happened.
    pub hash: u64,
    /// How often each kind fired, in the order of [`Kind::ALL`].
    pub counts: Vec<u64>,
    /// Kinds that were not wanted.
    pub without: Vec<Kind>,
}

impl Report {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            mode: settings.mode,
            seed: settings.seed,
            steps: 0,
            worlds: 0,
            hash: 0,
            counts: vec![0; Kind::ALL.len()],
            without: settings.without.clone(),
        }
    }

    pub(crate) fn add(&mut self, simulation: &Simulation) {
        self.steps += simulation.steps();
        self.worlds += 1;
        self.hash = self.hash.rotate_left(7) ^ simulation.trace.hash();
        for (count, &kind) in self.counts.iter_mut().zip(Kind::ALL) {
            *count += simulation.injections.count(kind);
        }
    }

    /// The kinds that can fire on this machine, and how often they did.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        let all = Kind::ALL.iter().zip(&self.counts);
        all.map(|(&kind, &count)| (kind, count))
            .filter(move |(kind, _)| kind.place().is(self.mode) && !self.without.contains(kind))
    }

    /// Kinds that never fired, although there were steps enough.
    pub fn missing(&self) -> Vec<Kind> {
        let missing = self.kinds().filter(|&(_, count)| count == 0);
        match self.steps >= STEPS_FOR_EVERY_KIND {
            true => missing.map(|(kind, _)| kind).collect(),
            false => Vec::new(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in self.kinds() {
            writeln!(f, "  {:<56} {count:>12}", kind.text())?;
        }
        write!(
            f,
            "{} machine: seed {}, {} steps in {} worlds, {} kinds of fault, hash {:016x}",
            self.mode.name(),
            self.seed,
            self.steps,
            self.worlds,
            self.kinds().count(),
            self.hash
        )
    }
}
