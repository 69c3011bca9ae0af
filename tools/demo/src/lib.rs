//! `cargo xtask demo`: redis holds the same data in less memory, and every byte of it is right.
//!
//! By default redis is left alone for a while (`idle.rs`). With `--full`, it holds a gigabyte under a budget while it is
//! used:
//!
//! 1. A native redis is filled with JSON values and read back, while another client keeps writing
//!    (`load`); its resident private anonymous memory (RssAnon) after filling is *native*, and a sample
//!    of its pages is compressed with LZ4 for comparison.
//! 2. The same is done under `coldpress run` with a budget of 45 % of *native* (65 % without AVX2). RssAnon of the
//!    redis process, pager and compressed storage included, is sampled every 10 ms throughout.
//! 3. The demo fails if one value differs, or if one sample exceeds the budget by more than the
//!    tolerance.
//!
//! Values are not kept but made again for the comparison ([`records`]), and are read in an
//! order that jumps over the whole store, so that most reads touch cold memory.

mod comparison;
mod idle;
mod load;
mod ratio;
pub mod records;
mod report;
pub mod resp;
pub mod server;
mod vocabulary;

use anyhow::Result;
use coldpress_codec::press::Simd;
use coldpress_harness::managed::{Statistics, Wrapper};
use coldpress_harness::output;
use coldpress_harness::process::{Sampler, Samples, Status};
use coldpress_harness::{install, text, workspace};
use load::Load;
use ratio::Ratio;
use server::{Phase, Plan, Server};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a sample may exceed any budget by: what redis may fill between two looks of the pager.
const LEAST_TOLERANCE: u64 = 2 << 20;

/// Options of the demo.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// A gigabyte of values under a budget, read back beside a client that writes (some minutes)
    #[arg(long)]
    full: bool,
    /// Values to hold, in MiB [default: 256; 1024 with --full].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    mebibytes: Option<u64>,
    /// Budget, in percent of the native resident memory [default: 45; 65 where the processor has no
    /// AVX2, without which pages are not compressed as densely].
    #[arg(long, requires = "full", value_parser = clap::value_parser!(u64).range(1..=100))]
    budget_percent: Option<u64>,
    /// By how much a sample may exceed the budget, in percent of the budget; 2 MiB at least.
    #[arg(long, requires = "full", default_value_t = 2)]
    tolerance_percent: u64,
    /// Seed of the values.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Do the second run without coldpress: it must then fail by exceeding the budget.
    #[arg(long, requires = "full", hide = true)]
    rehearse: bool,
}

/// One run of redis: filled, then read back.
#[derive(Debug)]
pub struct Run {
    /// Filling it.
    pub fill: Phase,
    /// Reading it back.
    pub read: Phase,
    /// What another client wrote meanwhile.
    pub load: Phase,
    /// RssAnon after filling, in bytes.
    pub filled: u64,
    /// RssAnon after reading it back, in bytes.
    pub held: u64,
    /// What redis itself counts as used, in bytes.
    pub used: u64,
    /// All samples, in both phases.
    pub samples: Samples,
}

/// Everything the demo found.
#[derive(Debug)]
pub struct Findings {
    /// The run without coldpress.
    pub native: Run,
    /// The run under its budget.
    pub managed: Run,
    /// Final statistics of the pager, if it left any.
    pub statistics: Option<Statistics>,
    /// LZ4 on the pages of the native run.
    pub lz4: Ratio,
    /// Budget of the managed run, in bytes.
    pub budget: u64,
    /// What samples may exceed it by, in bytes.
    pub tolerance: u64,
}

impl Run {
    /// Highest RssAnon while filling, and while reading back, in bytes.
    pub fn peaks(&self) -> (u64, u64) {
        let filling = self.samples.0.iter().map(|s| {
            let filling = s.at.as_secs_f64() <= self.fill.seconds;
            (filling, s.resident.anonymous)
        });
        filling.fold((0, 0), |(fill, read), (filling, bytes)| match filling {
            true => (fill.max(bytes), read),
            false => (fill, read.max(bytes)),
        })
    }
}

impl Findings {
    /// What makes the demo fail.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (name, run) in [("native", &self.native), ("managed", &self.managed)] {
            let mismatches = run.read.mismatches + run.load.mismatches;
            if mismatches > 0 {
                complaints.push(format!(
                    "{mismatches} values of the {name} run differ from what was written"
                ));
            }
        }
        let peak = self.managed.samples.peak();
        if peak > self.budget + self.tolerance {
            complaints.push(format!(
                "the peak of {} exceeds the budget of {} by more than {}",
                text::mib(peak),
                text::mib(self.budget),
                text::mib(self.tolerance)
            ));
        }
        complaints
    }
}

/// Runs the demo; 1 if it failed.
pub fn run(options: &Options) -> Result<u8> {
    // Before anything is built: somebody may not want it.
    match options.full {
        true => install::packages(&[install::REDIS, install::PYTHON])?,
        false => install::packages(&[install::REDIS])?,
    }
    workspace::continue_in_release()?;
    match options.full {
        true => full(options),
        false => idle::run(options),
    }
}

fn full(options: &Options) -> Result<u8> {
    let binary = if options.rehearse {
        PathBuf::new()
    } else {
        workspace::build_release()?
    };
    let (dir, _guard) = workspace::temporary_dir("demo")?;
    let (native, plan, lz4) = native(options, &dir)?;
    let percent = options.budget_percent.unwrap_or_else(usual_percent);
    let budget = native.filled * percent / 100 / 4096 * 4096;
    let statistics_file = dir.join("statistics.json");
    let wrapper = if options.rehearse {
        Wrapper::Native
    } else {
        Wrapper::Managed {
            binary,
            budget_bytes: budget,
            statistics: statistics_file.clone(),
        }
    };
    let managed = managed(&wrapper, &dir, plan, budget)?;
    let findings = Findings {
        native,
        managed,
        statistics: read_statistics(&wrapper, &statistics_file),
        lz4,
        budget,
        tolerance: (budget * options.tolerance_percent / 100).max(LEAST_TOLERANCE),
    };
    conclude(options, &findings)
}

/// The run without coldpress, with its pages given to LZ4; also what the other run is to hold.
fn native(options: &Options, dir: &Path) -> Result<(Run, Plan, Ratio)> {
    let mut server = Server::start(&Wrapper::Native, dir)?;
    let sampler = sampler(&server)?;
    let what = "native: filling redis";
    let fill = server.fill_to(options.seed, options.mebibytes.unwrap_or(1024) << 20, what)?;
    let plan = Plan {
        seed: options.seed,
        count: fill.records,
    };
    Load::beside(plan.seed, plan.count).begin(server.socket())?;
    let filled = Status::open(server.pid)?.resident()?.anonymous;
    eprintln!("sampling the native pages for LZ4");
    let lz4 = ratio::measure(server.pid).unwrap_or_else(|error| {
        eprintln!("SKIPPED: LZ4's own ratio: {error:#}");
        Ratio::default()
    });
    let run = finish(server, sampler, fill, filled, plan, "native")?;
    Ok((run, plan, lz4))
}

/// The run under the budget, in bytes.
fn managed(wrapper: &Wrapper, dir: &Path, plan: Plan, budget: u64) -> Result<Run> {
    let mut server = Server::start(wrapper, dir)?;
    let sampler = sampler(&server)?;
    let what = format!("coldpress, budget {}: filling redis", text::mib(budget));
    let fill = server.fill(plan, &what)?;
    Load::beside(plan.seed, plan.count).begin(server.socket())?;
    let filled = Status::open(server.pid)?.resident()?.anonymous;
    finish(server, sampler, fill, filled, plan, "coldpress")
}

/// Prints and writes what was found; 1 if the demo failed.
fn conclude(options: &Options, findings: &Findings) -> Result<u8> {
    println!("{}", report::text(findings));
    if let Some(path) = &options.json {
        output::json(path, &report::json(findings))?;
    }
    let complaints = findings.complaints();
    for complaint in &complaints {
        println!("FAILED: {complaint}");
    }
    if complaints.is_empty() {
        println!(
            "OK: {} values read back equal, byte by byte, and {} written meanwhile, within the budget.",
            text::thousands(findings.managed.read.records),
            text::thousands(findings.managed.load.records)
        );
    }
    Ok(u8::from(!complaints.is_empty()))
}

/// The budget that can be kept, in percent of what is native: at 45, these pages must leave through
/// press-dense, which the pager uses by itself where it decodes quickly.
fn usual_percent() -> u64 {
    match Simd::best() {
        Simd::Avx512 | Simd::Avx2 => 45,
        Simd::Portable => 65,
    }
}

fn sampler(server: &Server) -> Result<Sampler> {
    Sampler::start(server.pid, Duration::from_millis(10), || 0)
}

/// Reads everything back, ends the server and sums the run up.
fn finish(
    mut server: Server,
    sampler: Sampler,
    fill: Phase,
    filled: u64,
    plan: Plan,
    name: &str,
) -> Result<Run> {
    let load = Load::beside(plan.seed, plan.count);
    let loading = load.go_on(server.socket())?;
    let read = server.read_back(plan, &format!("{name}: reading back, beside writing"))?;
    let mut written = loading.end()?;
    written.mismatches = load.check(server.client(), written.records)?;
    let samples = sampler.finish();
    let held = Status::open(server.pid)?.resident()?.anonymous;
    let used = server.used_memory()?;
    server.end()?;
    Ok(Run {
        fill,
        read,
        load: written,
        filled,
        held,
        used,
        samples,
    })
}

fn read_statistics(wrapper: &Wrapper, file: &Path) -> Option<Statistics> {
    if matches!(wrapper, Wrapper::Native) {
        return None;
    }
    Statistics::read(file)
        .inspect_err(|error| eprintln!("warning: {error:#}"))
        .ok()
}
