//! redis is filled by twenty clients, in less and less memory until the kernel kills it.
//!
//! First the group's limit shrinks, and zram's pool, which is charged to nobody, takes what it takes. Where that
//! kills nothing, the total shrinks: pages and pool together have so much and no more. How much of it is
//! the pool's (`mem_limit` of the device) is zram's choice: it is killed where it is killed however that is divided.
//! coldpress has each total as the hard limit of a cgroup without swap.

use super::report::Series;
use super::sides::{self, Kernel, Round, Side};
use super::{Finding, LOADING, Options, again_if_killed, kernel, program};
use crate::cleanup;
use crate::programs::place::Place;
use crate::programs::run::{Killed, Program};
use crate::text::mib;
use anyhow::{Context, Result};

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
                "zram, limit {}: killed {} of {} times while it was filled; coldpress, limit {}: killed {} times",
                mib(limit),
                zram.1,
                self.rounds,
                mib(total as u64),
                coldpress.1,
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
            let (mut rounds, mut killed, mut limits) = (Vec::new(), 0, Vec::new());
            let mut limit = 0;
            for division in DIVISIONS {
                limit = (most * division as f64 / 100.0).max(least) as u64;
                let pool = total as u64 - limit;
                self.kernel.zram.limit_pool(Some(pool))?;
                let zram = self.several(&Side::Zram(&self.kernel, limit));
                self.kernel.zram.limit_pool(None)?;
                let zram = zram?;
                limits.push(format!("{} and {}", mib(limit), mib(pool)));
                rounds.extend(zram.0);
                killed += zram.1;
                if !rounds.is_empty() {
                    break;
                }
            }
            let tried = rounds.len() as u32 + killed;
            let coldpress = self.several(&Side::Coldpress(budget(total), Some(total as u64)))?;
            let line = format!(
                "{} in all ({percent} % of native): zram, pages and pool limited to {}: killed {killed} of {tried} times; coldpress: killed {} of {} times",
                mib(total as u64),
                limits.join(", "),
                coldpress.1,
                self.rounds,
            );
            let lived = !rounds.is_empty();
            self.note(line, limit, total, (rounds, killed), coldpress);
            if !lived {
                break;
            }
        }
        Ok(())
    }

    /// Runs it several times: the runs that it lived through, and how often it was killed.
    fn several(&self, side: &Side) -> Result<(Vec<Round>, u32)> {
        let (mut lived, mut killed) = (Vec::new(), 0);
        for _ in 0..self.rounds {
            match sides::run(self.program, self.place, side) {
                Ok(done) => lived.push(done),
                Err(error) if error.is::<Killed>() => {
                    cleanup::park_if_stopping();
                    killed += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((lived, killed))
    }

    /// Takes down what was found; whether zram was killed.
    fn note(
        &mut self,
        line: String,
        limit: u64,
        total: f64,
        zram: (Vec<Round>, u32),
        coldpress: (Vec<Round>, u32),
    ) -> bool {
        eprintln!("{LOADING}: {line}");
        let finding = &mut self.finding;
        finding.notes.push(line);
        finding.limit_bytes = limit;
        finding.target_bytes = total;
        finding.budget_bytes = budget(total);
        finding.kills = zram.1;
        let rounds = |series, rounds: Vec<Round>| rounds.into_iter().map(move |r| (series, r));
        finding.rounds = vec![(Series::Native, self.native.clone())];
        finding
            .rounds
            .extend(rounds(Series::Coldpress, coldpress.0));
        finding.rounds.extend(rounds(Series::Zram, zram.0));
        zram.1 > 0
    }
}

/// As `run` takes it by itself in a cgroup: a sixteenth is left free.
fn budget(total: f64) -> u64 {
    (total * 15.0 / 16.0) as u64 & !4095
}
