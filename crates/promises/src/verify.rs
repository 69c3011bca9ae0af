//! The workload of `cargo xtask verify` and of the promise of a million restores: rounds of
//! `programs/verify.c`, each in other weather. A round that ended well was right in every page that
//! was looked at; how many cycles there were, the pager's statistics tell.
//!
//! A *cycle* is a page that was taken out and given back with content. The program verifies every
//! word of a page whenever it comes to it, before it writes, and all pages at the end; so what
//! was wrong after any cycle is found, unless the program itself gave the page up before.

use crate::{Managed, Statistics, Workplace};
use coldpress_interface::statistics::Failure;
use std::path::Path;
use std::time::Duration;

/// One kind of weather.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// What it is called in tables.
    pub name: &'static str,
    threads: u32,
    mib: u32,
    /// Between two forks of a thread; 0: none.
    fork_every_ms: u32,
    /// Thousandths of all steps that change the address space, make threads or make system calls.
    rare: u32,
    budget: &'static str,
    chaos: bool,
    codec: Option<&'static str>,
    storage: Option<&'static str>,
    /// When what stays compressed is stored anew, where that is not chosen.
    recode_after: Option<&'static str>,
}

const fn round(name: &'static str, threads: u32, mib: u32, fork_every_ms: u32, rare: u32) -> Round {
    Round {
        name,
        threads,
        mib,
        fork_every_ms,
        rare,
        budget: "192M",
        chaos: true,
        codec: None,
        storage: None,
        recode_after: None,
    }
}

const fn recoded(round: Round, recode_after: &'static str) -> Round {
    Round {
        recode_after: Some(recode_after),
        ..round
    }
}

const fn kept_by(round: Round, codec: &'static str, storage: &'static str) -> Round {
    Round {
        codec: Some(codec),
        storage: Some(storage),
        ..round
    }
}

const fn within(round: Round, budget: &'static str) -> Round {
    Round {
        budget,
        chaos: false,
        ..round
    }
}

/// The rounds, in the order in which they are run, over and over. Every other one brings many
/// cycles, those between them what makes cycles difficult.
#[rustfmt::skip]
pub const ROUNDS: &[Round] = &[
    round("calm", 2, 96, 0, 1),
    round("changes", 3, 48, 1000, 20),
    kept_by(round("calm, lz4", 2, 96, 0, 1), "lz4:1", "size-class"),
    within(round("by budget", 3, 64, 1000, 5), "36M"),
    kept_by(round("calm, wkdm", 2, 96, 0, 1), "wkdm", "press"),
    round("forks", 2, 24, 200, 5),
    recoded(round("re-coded", 2, 96, 2000, 2), "500ms"),
    kept_by(round("calm, zstd", 2, 96, 0, 1), "zstd:-7", "two-slot"),
    round("crowd", 8, 96, 3000, 5),
];

/// What a round that ended well brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Pages given back with content.
    pub cycles: u64,
    /// Pages taken out.
    pub evictions: u64,
    /// Pages of which every word was compared.
    pub verified: u64,
    /// Pages written.
    pub writes: u64,
    /// Children that verified everything.
    pub forks: u64,
    /// Blocks moved, grown or shrunk by `mremap`.
    pub moves: u64,
    /// Short-lived threads.
    pub threads: u64,
    /// Signals handled.
    pub signals: u64,
    /// System calls into and out of cold memory.
    pub calls: u64,
    /// Of these, how often the page was away that holds what the kernel read.
    pub cold: u64,
    /// How long it took.
    pub wall: Duration,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.evictions += other.evictions;
        self.verified += other.verified;
        self.writes += other.writes;
        self.forks += other.forks;
        self.moves += other.moves;
        self.threads += other.threads;
        self.signals += other.signals;
        self.calls += other.calls;
        self.cold += other.cold;
        self.wall += other.wall;
    }
}

impl Round {
    /// Runs it under the `coldpress` command `binary`. The error is the whole report: what was wrong or who hung, and how to see it again.
    ///
    /// # Errors
    /// When a page was wrong, a thread was stuck, or the pager gave up a page.
    ///
    /// # Panics
    /// When it has not ended long after its time; the message tells what each thread waits for.
    pub fn run(
        &self,
        place: &Workplace,
        binary: &Path,
        program: &Path,
        seed: u64,
        seconds: u64,
    ) -> Result<Figures, String> {
        let mut managed = Managed::with_binary(place, binary)
            .budget(self.budget)
            .environment("VERIFY_STATUS", &binary.display().to_string())
            .within(3 * seconds + 60);
        if self.chaos {
            managed = managed.chaos();
        }
        let options = [
            ("--codec", self.codec),
            ("--storage", self.storage),
            ("--recode-after", self.recode_after),
        ];
        for (option, value) in options {
            if let Some(value) = value {
                managed = managed.option(option, value);
            }
        }
        let arguments = [
            seed,
            self.threads.into(),
            self.mib.into(),
            seconds,
            self.fork_every_ms.into(),
            self.rare.into(),
        ]
        .map(|number| number.to_string());
        let (outcome, statistics) = managed.run(program, arguments);
        let last = outcome.stdout.trim_end().lines().last().unwrap_or("");
        let doubt = |s: &Statistics| s.failed(Failure::Corrupt) + s.failed(Failure::InstallRefused);
        let (Some(0), Some(told), Some(statistics)) = (
            outcome.status.code(),
            last.strip_prefix("OK "),
            statistics
                .filter(Statistics::pager_started)
                .filter(|s| doubt(s) == 0),
        ) else {
            return Err(format!("round `{}`, seed {seed}: {outcome}", self.name));
        };
        let number = |name: &str| {
            let mut words = told.split(' ').filter_map(|word| word.split_once('='));
            let value = words.find(|(n, _)| *n == name).map(|(_, value)| value);
            value.and_then(|v| v.parse().ok()).unwrap_or(0)
        };
        Ok(Figures {
            cycles: statistics.restores(),
            evictions: statistics.get("evictions"),
            verified: number("verified"),
            writes: number("writes"),
            forks: number("forks"),
            moves: number("moves"),
            threads: number("threads"),
            signals: number("signals"),
            calls: number("calls"),
            cold: number("cold"),
            wall: outcome.wall,
        })
    }
}
