//! `cargo xtask programs`: real programs under small budgets give, byte by byte, what they give natively.
//!
//! Each program is run three times:
//!
//! 1. natively, for its output, its time and the peak of its private anonymous memory;
//! 2. natively again, stopped near that peak and some times later: its pages are captured and given to
//!    `coldpress eval`, which says what they need (`need`);
//! 3. under `coldpress run --budget B`, where B is 1.15 times the most of that, and what cannot be managed.
//!
//! The task fails if an output differs, if nothing was evicted, if more than one sample of a
//! hundred was more than a twentieth above the budget, or if fewer than four of the
//! programs got by with half of their native memory. The testers of memory run under random
//! eviction instead, and each of their pages must have been evicted ten times (`chaos`).
//!
//! | module | holds |
//! |---|---|
//! | [`subjects`] | the programs, and what each works on (`data/`) |
//! | [`place`], [`mod@run`] | where and how they are started; one run to its end |
//! | `need` | what their pages need |
//! | [`redis`], `postgres`, `chaos` | servers with their clients, and testers of memory |
//! | `report` | the table and the JSON |
//! | `by_default` | instead of all that: what the default saves and costs |
//!
//! Two more tasks run programs both ways: [`suites`] the test suites of other projects, [`verify`] one of our own that
//! knows what each of its pages must hold. [`disk`] has disks over NBD, and fio on them.

mod by_default;
mod chaos;
pub mod disk;
mod need;
pub mod place;
mod postgres;
pub mod redis;
mod report;
pub mod run;
pub mod subjects;
pub mod suites;
pub mod verify;

use anyhow::{Context, Result, bail};
use coldpress_harness::install::{self, Package};
use coldpress_harness::output;
use coldpress_harness::process::{Sampler, Samples};
use coldpress_harness::text::mib;
use need::{Look, Need};
use place::{Place, Start};
use run::{Done, Program};
use std::path::PathBuf;
use std::time::Duration;
use subjects::{SUBJECTS, Subject};

/// Options of `cargo xtask programs`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only this program (can be repeated)
    #[arg(long = "only", value_name = "NAME")]
    only: Vec<String>,
    /// Size of all data, in percent of the usual one
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    scale: u64,
    /// Instead: what `coldpress run` without any option saves and costs, natively and under it by turns
    #[arg(long)]
    default: bool,
    /// With --default: how often each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// A run that takes longer than this many seconds hangs
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// Write all figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How often memory is looked at.
const INTERVAL: Duration = Duration::from_millis(5);
/// Shares of the peak at which a program is looked at, the best first.
const SHARES: [f64; 4] = [0.97, 0.9, 0.8, 0.6];
/// How often it is looked at after that, and the time between: one of so many parts of the native run.
const LATER_LOOKS: usize = 4;
const LATER_PART: f64 = 16.0;
/// How many programs must get by with half of their native memory.
const AT_HALF: usize = 4;

/// What 99 of 100 samples may be above the budget: one part of this many.
const TOLERANCE: u64 = 20;

/// What was found of one program.
pub struct Finding {
    subject: &'static Subject,
    native_seconds: f64,
    native_peak: u64,
    need: Option<Need>,
    budget: u64,
    managed: Option<Managed>,
    /// Why it failed, if it did.
    complaints: Vec<String>,
}

/// Its run under coldpress.
pub struct Managed {
    done: Done,
    /// Highest private anonymous memory seen.
    peak: u64,
    /// The mean of it.
    held: u64,
}

impl Finding {
    fn budget_share(&self) -> f64 {
        self.budget as f64 / self.native_peak.max(1) as f64
    }
}

/// Runs the programs; 1 if one of them failed.
pub fn run(options: &Options) -> Result<u8> {
    coldpress_harness::workspace::continue_in_release()?;
    let wanted = wanted(&options.only)?;
    install_for(&wanted)?;
    let limit = Duration::from_secs(options.limit);
    let place = Place::new("programs", options.scale, limit)?;
    if options.default {
        return by_default::run(&wanted, &place, options.rounds, options.json.as_deref());
    }
    let mut findings = Vec::new();
    for subject in wanted {
        let finding = match find(subject, &place) {
            Ok(finding) => finding,
            Err(error) => {
                coldpress_harness::cleanup::park_if_stopping();
                Finding::failed(subject, format!("{error:#}"))
            }
        };
        for complaint in &finding.complaints {
            println!("FAILED: {}: {complaint}", subject.name);
            println!(
                "repeat it with: cargo xtask programs --only {} --scale {}",
                subject.name, options.scale
            );
        }
        findings.push(finding);
    }
    println!("\n{}", report::markdown(&findings));
    if let Some(path) = &options.json {
        output::json(path, &report::json(&findings))?;
    }
    let mut failed = findings
        .iter()
        .any(|finding| !finding.complaints.is_empty());
    let halved = findings
        .iter()
        .filter(|f| f.managed.is_some() && f.need.is_some());
    let halved = halved.filter(|f| f.budget_share() <= 0.5).count();
    if options.only.is_empty() {
        println!("{halved} programs ran in half of their native memory or less");
        failed |= halved < AT_HALF;
    }
    Ok(u8::from(failed))
}

fn wanted(only: &[String]) -> Result<Vec<&'static Subject>> {
    match only {
        [] => Ok(SUBJECTS.iter().collect()),
        only => only.iter().map(|name| subjects::named(name)).collect(),
    }
}

/// Installs what these programs need.
pub fn install_for(subjects: &[&Subject]) -> Result<()> {
    let mut needs: Vec<Package> = Vec::new();
    for package in subjects.iter().flat_map(|subject| subject.needs) {
        if needs.iter().all(|need| need.name != package.name) {
            needs.push(*package);
        }
    }
    install::packages(&needs)
}

impl Finding {
    fn failed(subject: &'static Subject, complaint: String) -> Finding {
        Finding {
            subject,
            native_seconds: 0.0,
            native_peak: 0,
            need: None,
            budget: 0,
            managed: None,
            complaints: vec![complaint],
        }
    }
}

fn find(subject: &'static Subject, place: &Place) -> Result<Finding> {
    let program = (subject.prepare)(place)?;
    let program = program.as_ref();
    let (native, mut finding) = natively(subject, program, place)?;
    if subject.is_chaos {
        // Room for everything: what goes, goes by chance.
        finding.budget = 4 * finding.native_peak.max(64 << 20);
    } else {
        let need = need_of(program, place, finding.native_peak, &native)?;
        finding.budget = need.budget();
        finding.need = Some(need);
    }
    eprintln!(
        "{}: under coldpress, budget {}",
        subject.name,
        mib(finding.budget)
    );
    let start = Start {
        chaos: subject.is_chaos,
        ..Start::managed(place, finding.budget)
    };
    match sampled(program, &start) {
        Ok((managed, samples)) => finding.judge(&native, managed, &samples),
        Err(error) => {
            coldpress_harness::cleanup::park_if_stopping();
            finding
                .complaints
                .push(format!("under coldpress: {error:#}"));
        }
    }
    Ok(finding)
}

/// The native run, and a finding that holds its time and peak.
fn natively(
    subject: &'static Subject,
    program: &dyn Program,
    place: &Place,
) -> Result<(Done, Finding)> {
    eprintln!("{}: native", subject.name);
    let (done, samples) = sampled(program, &Start::native(place)).context("native run")?;
    let native_peak = samples.peak();
    tell(subject, &done, native_peak);
    let finding = Finding {
        native_seconds: done.seconds,
        native_peak,
        complaints: Vec::new(),
        ..Finding::failed(subject, String::new())
    };
    Ok((done, finding))
}

/// Tells how long a run took, and its peak in bytes.
fn tell(subject: &Subject, done: &Done, peak: u64) {
    eprintln!(
        "{}: {:.1} s, peak {}",
        subject.name,
        done.seconds,
        mib(peak)
    );
}

impl Finding {
    /// Takes the run under coldpress, and complains of what is wrong with it.
    fn judge(&mut self, native: &Done, managed: Done, samples: &Samples) {
        let (peak, over) = (samples.peak(), highest_but_one_in_a_hundred(samples));
        let held = samples.mean(|s| s.resident.anonymous);
        self.complaints.extend(difference(native, &managed));
        self.complaints.extend(complaint(self.subject, &managed));
        if !self.subject.is_chaos && over > self.budget + self.budget / TOLERANCE {
            self.complaints.push(format!(
                "OVER BUDGET: one sample of a hundred was above {}, the budget is {}",
                mib(over),
                mib(self.budget)
            ));
        }
        tell(self.subject, &managed, peak);
        self.managed = Some(Managed {
            done: managed,
            peak,
            held,
        });
    }
}

/// How the output under coldpress differs from the native one; `None`: it does not.
fn difference(native: &Done, managed: &Done) -> Option<String> {
    let mut pairs = managed.output.iter().zip(&native.output);
    let place_of_difference = pairs.position(|(a, b)| a != b);
    (managed.output != native.output).then(|| {
        format!(
            "WRONG OUTPUT: {} bytes natively, {} under coldpress, first difference at {place_of_difference:?}",
            native.output.len(),
            managed.output.len()
        )
    })
}

/// What is wrong with what the pager did.
fn complaint(subject: &Subject, done: &Done) -> Option<String> {
    let Some(statistics) = &done.statistics else {
        return Some("the pager left no statistics".into());
    };
    let corrupt = statistics.0["failures"]["corrupt"].as_u64();
    if corrupt != Some(0) {
        return Some(format!("pages that failed their checksum: {corrupt:?}"));
    }
    if subject.is_chaos {
        let a_page = chaos::evictions_a_page(statistics).unwrap_or(0.0);
        let too_few = a_page < chaos::EVICTIONS_A_PAGE;
        return too_few.then(|| format!("only {a_page:.1} evictions a page"));
    }
    let nothing = statistics.get("evictions").unwrap_or(0) == 0;
    nothing.then(|| "nothing was evicted".into())
}

/// Runs a program and samples its memory.
fn sampled(program: &dyn Program, start: &Start) -> Result<(Done, Samples)> {
    let mut sampler = None;
    let done = program.run(start, &mut |pid| {
        sampler = Some(Sampler::start(pid, INTERVAL, || 0)?);
        Ok(())
    })?;
    Ok((done, sampler.map(Sampler::finish).unwrap_or_default()))
}

/// Private anonymous memory that no more than one sample of a hundred is above.
fn highest_but_one_in_a_hundred(samples: &Samples) -> u64 {
    let mut sizes: Vec<u64> = samples.0.iter().map(|s| s.resident.anonymous).collect();
    sizes.sort_unstable();
    let at = (sizes.len() * 99).div_ceil(100).saturating_sub(1);
    sizes.get(at).copied().unwrap_or(0)
}

/// Runs a program natively, looks at it near its peak and a few times later: the pages of one moment may compress far
/// better than those of another, and the budget shall do for all. The output must be the same again: a
/// program that differs from run to run shows nothing.
fn need_of(program: &dyn Program, place: &Place, peak: u64, before: &Done) -> Result<Need> {
    let pause = Duration::from_secs_f64(before.seconds / LATER_PART);
    for share in SHARES {
        let least = (peak as f64 * share) as u64;
        let mut looker = None;
        let done = program.run(&Start::native(place), &mut |pid| {
            let (coldpress, dir) = (place.coldpress.clone(), place.dir.clone());
            looker = Some(std::thread::spawn(move || {
                look_near(pid, least, pause, |number| {
                    let file = dir.join(format!("native-{number}.pages"));
                    Look::at(&coldpress, pid, file)
                })
            }));
            Ok(())
        })?;
        if done.output != before.output {
            bail!("two native runs gave different outputs");
        }
        let looks = looker.and_then(|looker| looker.join().ok());
        let looks = looks.context("nobody looked")??;
        let mut needs = Vec::new();
        for look in &looks {
            needs.push(look.need(&place.coldpress)?);
        }
        if let Some(first) = needs.first_mut() {
            *first = first.at_peak(peak);
        }
        if let Some(most) = needs.into_iter().max_by_key(Need::budget) {
            return Ok(most);
        }
    }
    bail!("no native run came near the peak of the first one")
}

/// Looks at a process once it has so much memory, and some times later, as long as it lives. No look if it never has.
fn look_near(
    pid: u32,
    least: u64,
    pause: Duration,
    look: impl Fn(usize) -> Result<Look>,
) -> Result<Vec<Look>> {
    let status = coldpress_harness::process::Status::open(pid)?;
    // It has ended, at the latest, when its status cannot be read.
    while let Ok(resident) = status.resident() {
        if resident.anonymous < least {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        let mut looks = vec![look(0)?];
        for number in 1..=LATER_LOOKS {
            std::thread::sleep(pause);
            // It may have ended meanwhile.
            let Ok(later) = look(number) else { break };
            looks.push(later);
        }
        return Ok(looks);
    }
    Ok(Vec::new())
}
