//! `cargo xtask bench first`: coldpress beside kernel zram, at the same memory held.
//!
//! One program, three places: native, under `coldpress run` with a budget of 65 % of its native
//! size, and in a cgroup whose limit is such that its pages and the zram pool together take
//! what coldpress took. The limit is found on runs that are not counted. Then native, coldpress
//! and zram take turns, and the medians over the turns are reported.
//!
//! What the comparison leaves out, and for whom that is good, stands below the printed table.

use crate::calibrate::{Held, next_limit};
use crate::pages::{self, Place, Program, Round};
use crate::report::{self, Series};
use crate::zram::Zram;
use anyhow::{Context, Result};
use coldpress_harness::cgroup;
use coldpress_harness::managed::Wrapper;
use coldpress_harness::output;
use coldpress_harness::text::mib;
use coldpress_harness::{install, workspace};
use std::path::PathBuf;

/// Options of the first comparison.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Size of the program's mapping, in MiB.
    #[arg(long, default_value_t = 256)]
    mebibytes: u64,
    /// Time of touching in each run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// How often each place has its turn.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Budget, in percent of the native resident memory.
    #[arg(long, default_value_t = 65, value_parser = clap::value_parser!(u64).range(1..=100))]
    budget_percent: u64,
    /// Touches that take longer count as faults, in nanoseconds.
    #[arg(long, default_value_t = 1000)]
    threshold_ns: u64,
    /// Seed of contents and touches.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave coldpress out.
    #[arg(long)]
    without_coldpress: bool,
    /// Leave zram out.
    #[arg(long)]
    without_zram: bool,
    /// Write all rounds to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How close the two totals must be, as a share.
const CLOSE: f64 = 0.01;
/// Most runs to get that close.
const CALIBRATIONS: u32 = 5;

/// Most kills of one run by the kernel before the bench gives up.
const MOST_KILLS: u32 = 10;

/// Runs the comparison; 1 if content was wrong anywhere.
pub fn run(options: &Options) -> Result<u8> {
    install::packages(&[install::GCC])?;
    let binary = match options.without_coldpress {
        true => None,
        false => Some(workspace::build_release()?),
    };
    let (dir, _guard) = workspace::temporary_dir("bench")?;
    let program = Program {
        path: crate::stepwise::compile("bench_pages", &dir)?,
        mebibytes: options.mebibytes,
        seconds: options.seconds,
        seed: options.seed,
        threshold_ns: options.threshold_ns,
    };
    let mut findings = report::Findings::new(&program, options.budget_percent);
    budget(options, &program, &mut findings)?;
    let managed = binary.map(|binary| Wrapper::Managed {
        binary,
        budget_bytes: findings.budget_bytes,
        statistics: dir.join("statistics.json"),
    });
    findings.target_bytes = target_bytes(&program, managed.as_ref(), findings.budget_bytes)?;
    let kernel = kernel_side(options, &program, &mut findings)?;
    for round in 1..=options.rounds {
        let places = [
            (Series::Native, Some(Place::Free(&Wrapper::Native))),
            (Series::Coldpress, managed.as_ref().map(Place::Free)),
            (
                Series::Zram,
                kernel
                    .as_ref()
                    .map(|(zram, limit)| Place::Swapping(zram, *limit)),
            ),
        ];
        for (series, place) in places {
            let Some(place) = place else { continue };
            let done = turn(&program, series, &place, &mut findings)?;
            eprintln!(
                "round {round}/{}: {:<9} {}",
                options.rounds,
                series.name(),
                summary(&done)
            );
            findings.rounds.push((series, done));
        }
    }
    drop(kernel);
    conclude(options, &findings)
}

/// Finds the native size, and with it the budget.
fn budget(options: &Options, program: &Program, findings: &mut report::Findings) -> Result<()> {
    eprintln!("native size: one run");
    let first = pages::run(program, &Place::Free(&Wrapper::Native))?;
    findings.native_bytes = first.resident_mean as u64;
    findings.budget_bytes = findings.native_bytes * options.budget_percent / 100 / 4096 * 4096;
    Ok(())
}

/// Bytes that coldpress holds under the budget, which zram shall hold too; without coldpress the budget itself.
fn target_bytes(program: &Program, managed: Option<&Wrapper>, budget_bytes: u64) -> Result<u64> {
    let Some(wrapper) = managed else {
        return Ok(budget_bytes);
    };
    eprintln!(
        "what coldpress holds under a budget of {}: one run",
        mib(budget_bytes)
    );
    Ok(pages::run(program, &Place::Free(wrapper))?.held_mean as u64)
}

/// One counted run.
fn turn(
    program: &Program,
    series: Series,
    place: &Place,
    findings: &mut report::Findings,
) -> Result<Round> {
    match place {
        Place::Swapping(..) => run_again_if_killed(program, place, findings),
        Place::Free(_) => pages::run(program, place).with_context(|| series.name().to_owned()),
    }
}

/// Prints and writes what was found; 1 if content was wrong anywhere.
fn conclude(options: &Options, findings: &report::Findings) -> Result<u8> {
    println!("{}", report::text(findings));
    if let Some(path) = &options.json {
        output::json(path, &report::json(findings))?;
    }
    let wrong: u64 = findings.rounds.iter().map(|(_, round)| round.wrong).sum();
    if wrong > 0 {
        println!("FAILED: wrong content was read {wrong} times");
    }
    Ok(u8::from(wrong > 0))
}

fn summary(round: &Round) -> String {
    format!(
        "{:.0} touches/s, {:.0} slow, {} held",
        round.rate(),
        round.slow,
        mib(round.held_mean as u64)
    )
}

/// Runs in a cgroup. When every page was touched since reclaim last looked, the kernel now and
/// then finds none to take and kills the program although swap has room: such a run is counted
/// and repeated.
fn run_again_if_killed(
    program: &Program,
    place: &Place,
    findings: &mut report::Findings,
) -> Result<Round> {
    for _ in 0..MOST_KILLS {
        match pages::run(program, place) {
            Err(error) if error.is::<pages::Killed>() => {
                eprintln!("zram: {error}; repeating the run");
                findings.kills += 1;
            }
            other => return other.context("zram"),
        }
    }
    anyhow::bail!("zram: the program was killed {MOST_KILLS} times in a row")
}

/// Sets zram and its limit up, or says loudly why not.
fn kernel_side(
    options: &Options,
    program: &Program,
    findings: &mut report::Findings,
) -> Result<Option<(Zram, u64)>> {
    if options.without_zram {
        return Ok(None);
    }
    let made = cgroup::hierarchy().and_then(|_| {
        // A little above the native size: as swap is more than half full then, the kernel
        // frees a slot as soon as its page has come back, and holds nothing twice.
        let disk = findings.native_bytes + (64 << 20);
        Zram::swap(disk)
    });
    let zram = match made {
        Ok(zram) => zram,
        Err(error) => {
            let line = format!("SKIPPED: kernel zram: {error:#}");
            println!("{line}");
            findings.skipped.push(line);
            return Ok(None);
        }
    };
    let native = findings.native_bytes as f64;
    let target = findings.target_bytes as f64;
    let mut limit = target * 0.7;
    let mut closest = (f64::INFINITY, limit);
    for number in 1..=CALIBRATIONS {
        let place = Place::Swapping(&zram, limit as u64);
        let round = run_again_if_killed(program, &place, findings)?;
        let off = round.held_mean / target - 1.0;
        eprintln!(
            "zram calibration {number}: limit {} holds {} + {} of pool = {}, wanted {} ({:+.1} %)",
            mib(limit as u64),
            mib(round.resident_mean as u64),
            mib((round.held_mean - round.resident_mean) as u64),
            mib(round.held_mean as u64),
            mib(target as u64),
            off * 100.0
        );
        if off.abs() < closest.0 {
            closest = (off.abs(), limit);
        }
        if off.abs() < CLOSE {
            break;
        }
        let held = Held {
            resident: round.resident_mean,
            all: round.held_mean,
        };
        limit = next_limit(limit, held, native, target);
    }
    findings.limit_bytes = closest.1 as u64;
    Ok(Some((zram, closest.1 as u64)))
}
