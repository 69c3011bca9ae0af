//! redis is filled by twenty clients, in less and less memory until the kernel kills it.
//!
//! First the group's limit shrinks, and zram's pool, which is charged to nobody, takes what it takes. Where that
//! kills nothing, the total shrinks: pages and pool together have so much and no more. How much of it is
//! the pool's (`mem_limit` of the device) is zram's choice: it has lost where no division lets it live, since redis
//! is killed, or does not answer for a minute.
//! coldpress has each total as the hard limit of a cgroup without swap.

use super::report::Series;
use super::sides::{self, Kernel, Round, Side};
use super::{Finding, LOADING, Options, again_if_killed, kernel, program};
use anyhow::{Context, Result};
use coldpress_harness::cleanup;
use coldpress_harness::text::mib;
use coldpress_programs::place::Place;
use coldpress_programs::run::{Killed, Program};
use std::{fmt, io};

/// Limits of the group, in MiB for the usual size of the data.
const LIMITS: [u64; 9] = [104, 80, 64, 52, 42, 34, 28, 23, 19];
/// Totals of pages and pool, in percent of the native memory.
const TOTALS: [u64; 6] = [60, 56, 52, 48, 44, 40];
/// What the pages have of what they may have at most if the pool is to hold all others, in percent.
const DIVISIONS: [u64; 3] = [95, 70, 45];
/// The least that the pages have, in MiB for the usual size of the data.
const LEAST: u64 = 12;

/// The comparison. The table is of the last memory tried.
pub fn run(options: &Options, place: &Place) -> Result<Finding> {
    let program = program(LOADING, place)?;
    let native = sides::run(program.as_ref(), place, &Side::Native).context("native run")?;
    let mut finding = Finding {
        name: LOADING,
        native_bytes: native.held_peak,
        budget_bytes: 0,
        target_bytes: 0.0,
        limit_bytes: 0,
        kills: 0,
        rounds: Vec::new(),
        notes: Vec::new(),
    };
    let Some(kernel) = kernel(native.held_peak as u64, place, &mut finding.notes) else {
        return Ok(finding);
    };
    // What the pool takes of what is not resident, at a limit at which it lives.
    let roomy = (native.held_peak * 0.6) as u64;
    let (seen, _) = again_if_killed(program.as_ref(), place, &kernel, roomy, &mut 0)?;
    let away = (native.held_peak - seen.resident).max(1.0);
    let share = ((seen.held - seen.resident) / away).clamp(0.0, 1.0);
    finding.notes.push(format!(
        "coldpress: in a cgroup without swap, limited to what zram would have: its limit, and {:.0} % of what is not resident for the pool",
        100.0 * share
    ));
    let mut loading = Loading {
        program: program.as_ref(),
        place,
        rounds: options.rounds,
        kernel,
        native,
        share,
        finding,
    };
    if !loading.shrink_limit()? {
        loading.shrink_total()?;
    }
    Ok(loading.finding)
}

/// How several runs on one side went.
#[derive(Default)]
struct Runs {
    lived: Vec<Round>,
    killed: u32,
    /// Those in which redis did not answer for a minute.
    stuck: u32,
}

impl Runs {
    fn add(&mut self, other: Runs) {
        self.lived.extend(other.lived);
        self.killed += other.killed;
        self.stuck += other.stuck;
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.lived.len() as u32 + self.killed + self.stuck;
        write!(f, "killed {} of {all} times", self.killed)?;
        match self.stuck {
            0 => Ok(()),
            times => write!(f, ", without an answer for a minute {times} times"),
        }
    }
}

struct Loading<'a> {
    program: &'a dyn Program,
    place: &'a Place,
    rounds: u64,
    kernel: Kernel,
    native: Round,
    /// What the pool takes of what it holds.
    share: f64,
    finding: Finding,
}

impl Loading<'_> {
    /// Ever less for the pages, and as much as it takes for the pool. Whether the kernel killed redis.
    fn shrink_limit(&mut self) -> Result<bool> {
        for limit in LIMITS {
            let limit = self.place.scaled(limit << 20);
            let native = self.native.held_peak;
            let total = limit as f64 + self.share * (native - limit as f64).max(0.0);
            let zram = self.several(&Side::Zram(&self.kernel, limit))?;
            let coldpress = self.several(&Side::Coldpress(budget(total), Some(total as u64)))?;
            let line = format!(
                "zram, limit {}: {zram} while it was filled; coldpress, limit {}: {coldpress}",
                mib(limit),
                mib(total as u64),
            );
            if self.note(line, limit, total, zram, coldpress) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ever less for pages and pool together, until zram is killed however that is divided.
    fn shrink_total(&mut self) -> Result<()> {
        for percent in TOTALS {
            let native = self.native.held_peak;
            let total = native * percent as f64 / 100.0;
            // With more for the pages the pool could not hold all others.
            let most = (total - self.share * native) / (1.0 - self.share);
            let least = self.place.scaled(LEAST << 20) as f64;
            let (mut zram, mut limits, mut limit) = (Runs::default(), Vec::new(), 0);
            for division in DIVISIONS {
                let next = (most * division as f64 / 100.0).max(least) as u64;
                if next == limit {
                    break;
                }
                limit = next;
                let pool = total as u64 - limit;
                self.kernel.zram.limit_pool(Some(pool))?;
                let runs = self.several(&Side::Zram(&self.kernel, limit));
                self.kernel.zram.limit_pool(None)?;
                zram.add(runs?);
                limits.push(format!("{} and {}", mib(limit), mib(pool)));
                if !zram.lived.is_empty() {
                    break;
                }
            }
            let coldpress = self.several(&Side::Coldpress(budget(total), Some(total as u64)))?;
            let line = format!(
                "{} in all ({percent} % of native): zram, pages and pool limited to {}: {zram}; coldpress: {coldpress}",
                mib(total as u64),
                limits.join(", "),
            );
            let lived = !zram.lived.is_empty();
            self.note(line, limit, total, zram, coldpress);
            if !lived {
                break;
            }
        }
        Ok(())
    }

    /// Runs it several times.
    fn several(&self, side: &Side) -> Result<Runs> {
        let mut runs = Runs::default();
        for _ in 0..self.rounds {
            match sides::run(self.program, self.place, side) {
                Ok(done) => runs.lived.push(done),
                Err(error) if error.is::<Killed>() => {
                    cleanup::park_if_stopping();
                    runs.killed += 1;
                }
                Err(error) if timed_out(&error) => runs.stuck += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(runs)
    }

    /// Takes down what was found; whether zram was killed.
    fn note(&mut self, line: String, limit: u64, total: f64, zram: Runs, coldpress: Runs) -> bool {
        eprintln!("{LOADING}: {line}");
        let finding = &mut self.finding;
        finding.notes.push(line);
        finding.limit_bytes = limit;
        finding.target_bytes = total;
        finding.budget_bytes = budget(total);
        finding.kills = zram.killed;
        let rounds = |series, rounds: Vec<Round>| rounds.into_iter().map(move |r| (series, r));
        finding.rounds = vec![(Series::Native, self.native.clone())];
        finding
            .rounds
            .extend(rounds(Series::Coldpress, coldpress.lived));
        finding.rounds.extend(rounds(Series::Zram, zram.lived));
        zram.killed > 0
    }
}

/// Whether the client waited for an answer as long as it waits for any.
fn timed_out(error: &anyhow::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    let causes = error.chain();
    let mut kinds = causes.filter_map(|cause| cause.downcast_ref().map(io::Error::kind));
    kinds.any(|kind| matches!(kind, WouldBlock | TimedOut))
}

/// As `run` takes it by itself in a cgroup: a sixteenth is left free.
fn budget(total: f64) -> u64 {
    (total * 15.0 / 16.0) as u64 & !4095
}
