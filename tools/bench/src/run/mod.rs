//! `cargo xtask bench run`: real programs under coldpress and under kernel zram, at the same memory.
//!
//! For each workload:
//!
//! 1. one native run, for its size and its output;
//! 2. one run under coldpress with a budget of a share of that size: what it holds is wanted of both;
//! 3. runs in a cgroup with lz4 zram (a device of our own), until a limit is found at which
//!    pages and pool together take that much. "Held" is what 95 of 100 samples are below;
//! 4. native, coldpress and zram in turns; medians over the rounds.
//!
//! The work of each run is the same, so CPU time beyond native is what the memory costs. Last, redis
//! is filled in less and less memory until the kernel kills it ([`loading`]).
//!
//! | module | holds |
//! |---|---|
//! | [`sides`] | one run, and what is measured of it |
//! | [`gets`] | redis: uniform keys, skewed keys, filling alone |
//! | [`loading`] | who lives in how little |
//! | [`touches`] | the toucher: what a fault costs |
//! | [`reclaim`] | the kernel's reclaim, by tracepoints |
//! | [`report`] | the tables and the JSON |

mod gets;
mod loading;
mod reclaim;
mod report;
mod sides;
mod touches;

use crate::calibrate::{Held, next_limit};
use crate::zram::Zram;
use anyhow::{Context, Result, bail};
use coldpress_harness::cgroup;
use coldpress_harness::output;
use coldpress_harness::text::mib;
use coldpress_harness::{cleanup, install};
use coldpress_programs::place::Place;
use coldpress_programs::run::{Killed, Program};
use coldpress_programs::{install_for, subjects};
use gets::{Gets, Keys};
use sides::{Kernel, Round, Side};
use std::path::PathBuf;
use std::time::Duration;
use touches::Touches;

/// Options of the comparison.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only this workload (can be repeated)
    #[arg(long = "only", value_name = "NAME")]
    only: Vec<String>,
    /// How often each side has its turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Budget, in percent of the native memory
    #[arg(long, default_value_t = 65, value_parser = clap::value_parser!(u64).range(1..=100))]
    budget_percent: u64,
    /// Size of all data, in percent of the usual one
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    scale: u64,
    /// A run that takes longer than this many seconds hangs
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// Write all rounds to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const WORKLOADS: [&str; 7] = [
    "touches",
    "redis-uniform",
    "redis-skewed",
    "pandas",
    "jvm",
    "cc1plus",
    "redis-loading",
];
/// The first of them runs for a fixed time.
const TOUCHES: &str = WORKLOADS[0];
/// The last of them is of another kind.
const LOADING: &str = WORKLOADS[6];

/// How close the two totals must be, as a share.
const CLOSE: f64 = 0.01;
/// Most runs to get that close.
const CALIBRATIONS: u32 = 5;
/// Most kills of one run by the kernel before we give up.
const MOST_KILLS: u32 = 5;

/// What was found of one workload.
pub struct Finding {
    name: &'static str,
    native_bytes: f64,
    budget_bytes: u64,
    target_bytes: f64,
    limit_bytes: u64,
    kills: u32,
    rounds: Vec<(report::Series, Round)>,
    notes: Vec<String>,
}

/// Runs the comparison; 1 if content was wrong anywhere.
pub fn run(options: &Options) -> Result<u8> {
    coldpress_harness::workspace::continue_in_release()?;
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    if let Some(unknown) = options
        .only
        .iter()
        .find(|o| !WORKLOADS.contains(&o.as_str()))
    {
        bail!(
            "there is no workload {unknown:?}: choose among {}",
            WORKLOADS.join(", ")
        );
    }
    let wanted: Vec<_> = WORKLOADS
        .into_iter()
        .filter(|name| is_wanted(name))
        .collect();
    install_needs(&wanted)?;
    let place = Place::new(
        "bench-run",
        options.scale,
        Duration::from_secs(options.limit),
    )?;
    let (mut findings, mut failed) = (Vec::new(), false);
    for name in wanted {
        let finding = match name {
            LOADING => loading::run(options, &place),
            name => compare(name, options, &place),
        };
        match finding {
            Ok(finding) => findings.push(finding),
            Err(error) => {
                cleanup::park_if_stopping();
                println!("FAILED: {name}: {error:#}");
                println!(
                    "repeat it with: cargo xtask bench run --only {name} --scale {}",
                    options.scale
                );
                failed = true;
            }
        }
    }
    println!("\n{}", report::markdown(&findings, options.rounds));
    if let Some(path) = &options.json {
        output::json(path, &report::json(&findings))?;
    }
    Ok(u8::from(failed))
}

fn install_needs(wanted: &[&str]) -> Result<()> {
    let mut needed = Vec::new();
    for name in wanted {
        match *name {
            TOUCHES => install::packages(&[install::GCC])?,
            name if name.starts_with("redis") => install::packages(&[install::REDIS])?,
            name => needed.push(subjects::named(name)?),
        }
    }
    if !needed.is_empty() {
        install_for(&needed)?;
    }
    Ok(())
}

fn program(name: &str, place: &Place) -> Result<Box<dyn Program>> {
    Ok(match name {
        TOUCHES => Box::new(Touches::new(place)?),
        "redis-uniform" => Box::new(Gets(Keys::Uniform)),
        "redis-skewed" => Box::new(Gets(Keys::Skewed)),
        LOADING => Box::new(Gets(Keys::None)),
        name => (subjects::named(name)?.prepare)(place)?,
    })
}

fn compare(name: &'static str, options: &Options, place: &Place) -> Result<Finding> {
    let program = program(name, place)?;
    let program = program.as_ref();
    eprintln!("{name}: native size: one run");
    let native = sides::run(program, place, &Side::Native).context("native run")?;
    let budget = (native.held_peak as u64 * options.budget_percent / 100) & !4095;
    eprintln!(
        "{name}: what coldpress holds under {} of {}: one run",
        mib(budget),
        mib(native.held_peak as u64)
    );
    let managed = Side::Coldpress(budget, None);
    let first = sides::run(program, place, &managed).context("under coldpress")?;
    let mut finding = Finding {
        name,
        native_bytes: native.held_peak,
        budget_bytes: budget,
        target_bytes: first.held,
        limit_bytes: 0,
        kills: 0,
        rounds: Vec::new(),
        notes: Vec::new(),
    };
    same_output(&native, &first)?;
    let kernel = kernel(native.held_peak as u64, place, &mut finding.notes);
    if let Some(kernel) = &kernel {
        calibrate(program, place, kernel, &mut finding)?;
    }
    for round in 1..=options.rounds {
        for series in report::Series::ALL {
            let done = match (series, &kernel) {
                (report::Series::Native, _) => sides::run(program, place, &Side::Native)?,
                (report::Series::Coldpress, _) => {
                    sides::run(program, place, &managed).context("under coldpress")?
                }
                (report::Series::Zram, Some(kernel)) => {
                    let limit = finding.limit_bytes;
                    again_if_killed(program, place, kernel, limit, &mut finding.kills)?.0
                }
                (report::Series::Zram, None) => continue,
            };
            same_output(&native, &done)?;
            eprintln!(
                "{name}: round {round}/{}: {} {:.1} s, {} held",
                options.rounds,
                series.name(),
                done.seconds,
                mib(done.held as u64)
            );
            finding.rounds.push((series, done));
        }
    }
    Ok(finding)
}

fn same_output(native: &Round, other: &Round) -> Result<()> {
    match native.output == other.output {
        true => Ok(()),
        false => bail!("WRONG OUTPUT: not what the native run gave"),
    }
}

/// Sets zram up, or says why not.
fn kernel(native_bytes: u64, place: &Place, notes: &mut Vec<String>) -> Option<Kernel> {
    // A little above the native size: as swap is more than half full then, the kernel frees a slot
    // as soon as its page has come back, and holds nothing twice.
    let made = cgroup::hierarchy().and_then(|_| Zram::swap(native_bytes + (64 << 20)));
    match made {
        Ok(zram) => {
            let tracing = reclaim::Tracing::new(&place.dir);
            let tracing =
                tracing.inspect_err(|error| notes.push(format!("no tracepoints: {error:#}")));
            Some(Kernel {
                zram,
                tracing: tracing.ok(),
            })
        }
        Err(error) => {
            let line = format!("SKIPPED: kernel zram: {error:#}");
            println!("{line}");
            notes.push(line);
            None
        }
    }
}

/// A run under zram; a run that the kernel kills is counted and repeated. After two kills under one
/// limit the limit is too small for the program, and grows; the limit that it lived under is
/// returned.
fn again_if_killed(
    program: &dyn Program,
    place: &Place,
    kernel: &Kernel,
    mut limit: u64,
    kills: &mut u32,
) -> Result<(Round, u64)> {
    for attempt in 1..=MOST_KILLS {
        match sides::run(program, place, &Side::Zram(kernel, limit)) {
            Err(error) if error.is::<Killed>() => {
                cleanup::park_if_stopping();
                eprintln!("zram, limit {}: {error}; repeating the run", mib(limit));
                *kills += 1;
                if attempt.is_multiple_of(2) {
                    limit += limit / 20;
                }
            }
            other => return Ok((other.context("zram")?, limit)),
        }
    }
    bail!(
        "zram: killed {MOST_KILLS} times in a row, at last with a limit of {}",
        mib(limit)
    )
}

fn calibrate(
    program: &dyn Program,
    place: &Place,
    kernel: &Kernel,
    finding: &mut Finding,
) -> Result<()> {
    let (native, target) = (finding.native_bytes, finding.target_bytes);
    let mut limit = target * 0.7;
    let mut closest = f64::INFINITY;
    for number in 1..=CALIBRATIONS {
        let (round, lived) =
            again_if_killed(program, place, kernel, limit as u64, &mut finding.kills)?;
        let off = round.held / target - 1.0;
        eprintln!(
            "zram calibration {number}: limit {} holds {}, {} of it resident; wanted {} ({:+.1} %)",
            mib(lived),
            mib(round.held as u64),
            mib(round.resident as u64),
            mib(target as u64),
            off * 100.0
        );
        if off.abs() < closest {
            closest = off.abs();
            finding.limit_bytes = lived;
        }
        if closest < CLOSE {
            break;
        }
        let held = Held {
            resident: round.resident,
            all: round.held,
        };
        limit = next_limit(lived as f64, held, native, target);
    }
    Ok(())
}
