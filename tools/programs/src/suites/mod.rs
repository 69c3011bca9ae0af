//! `cargo xtask suites`: the test suites of other projects, natively and under `coldpress run`.
//!
//! Each suite runs as it is, then under `--chaos` (pages are evicted at random), then under a budget far below what its
//! programs hold. What counts is the list of failures: it must be the native one. A test that differs is run again, both
//! ways, so that one that fails now and then natively is not held against the pager.
//!
//! | module | holds |
//! |---|---|
//! | `source` | source packages of Debian, unpacked |
//! | `cpython`, `redis`, `sqlite`, `jemalloc` | a suite each: what it needs, how it runs, what it says of each test |

mod cpython;
mod jemalloc;
mod redis;
mod source;
mod sqlite;

use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::text::Table;
use coldpress_harness::{install, workspace};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Options of the task.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only these suites
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only these tests of the suite: modules of CPython, units of redis, scripts of sqlite, programs of jemalloc
    #[arg(long, value_name = "NAME")]
    test: Vec<String>,
    /// Budget of each process, as coldpress run takes it
    #[arg(long, default_value = "24M")]
    budget: String,
    /// How long chaos leaves a program alone between two rounds, as coldpress run takes it
    #[arg(long, value_name = "DURATION", default_value = "10ms")]
    chaos_rest: String,
    /// Units that run at once
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=32))]
    jobs: u16,
    /// Where sources are unpacked and built, and kept for the next time
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

/// How a suite runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Native,
    Chaos,
    Budget,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            How::Native => "native",
            How::Chaos => "--chaos",
            How::Budget => "--budget",
        }
    }
}

const HOWS: [How; 3] = [How::Native, How::Chaos, How::Budget];

/// How each test ended: true if it passed. Tests that were skipped are not in it.
type Verdicts = BTreeMap<String, bool>;

/// A suite of tests.
trait Suite: Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Packages that it needs.
    fn packages(&self) -> &'static [install::Package];
    /// Units that can be run by themselves, one command each.
    fn units(&self) -> &'static [&'static str];
    /// Fetches and builds what is to be run, in this directory.
    fn prepare(&self, dir: &Path) -> Result<()>;
    /// The command that runs a unit in a fresh directory, natively: program, arguments. `number`: of those that run at
    /// once.
    fn command(&self, dir: &Path, unit: &str, scratch: &Path, number: u16) -> Vec<String>;
    /// Where it runs.
    fn place(&self, dir: &Path, scratch: &Path) -> PathBuf;
    /// How the tests of a unit ended.
    fn verdicts(&self, unit: &str, output: &str, scratch: &Path) -> Verdicts;
}

/// Longest that a unit may take natively; under `coldpress run` it may take as long as well, and so many times as long as
/// natively: a budget far below what a program uses makes it slow, and that is not what is compared here.
const LIMIT: Duration = Duration::from_secs(600);
const TIMES: u32 = 20;

struct Runner<'a> {
    number: u16,
    coldpress: PathBuf,
    budget: &'a str,
    chaos_rest: &'a str,
    dir: PathBuf,
    scratch: PathBuf,
}

impl Runner<'_> {
    /// Runs a unit. One that does not end, or says nothing, has one failed test: itself.
    fn run(&self, suite: &dyn Suite, unit: &str, how: How, limit: Duration) -> Result<Verdicts> {
        let scratch = self.scratch.join("run");
        if scratch.exists() {
            std::fs::remove_dir_all(&scratch)?;
        }
        std::fs::create_dir_all(&scratch)?;
        let line = suite.command(&self.dir, unit, &scratch, self.number);
        let mut command = match how {
            How::Native => Command::new(&line[0]),
            How::Chaos | How::Budget => {
                let mut command = Command::new(&self.coldpress);
                command.args(["run", "--follow", "--budget", self.budget]);
                if how == How::Chaos {
                    command.args(["--chaos=1", "--chaos-rest", self.chaos_rest]);
                }
                command.arg("--stats").arg(self.scratch.join("stats.json"));
                command.arg("--").arg(&line[0]);
                command
            }
        };
        let log = self.scratch.join("log");
        let output = File::create(&log)?;
        command
            .args(&line[1..])
            .current_dir(suite.place(&self.dir, &scratch))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let running = Running::start_group(&mut command, unit)?;
        let ended = running.wait_for(limit);
        drop(running);
        let output = std::fs::read(&log)?;
        let output = String::from_utf8_lossy(&output);
        let mut verdicts = suite.verdicts(unit, &output, &scratch);
        let whole =
            matches!(&ended, Ok(status) if status.success() || verdicts.values().any(|ok| !ok));
        if !whole || verdicts.is_empty() {
            verdicts.insert(format!("{unit} (as a whole)"), false);
            let tail: Vec<_> = output.lines().rev().take(12).collect();
            let how_ended = match &ended {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            eprintln!("{} {}: {unit}: {how_ended}", suite.name(), how.name());
            tail.iter().rev().for_each(|line| eprintln!("    {line}"));
        }
        Ok(verdicts)
    }
}

fn failed(verdicts: &Verdicts) -> BTreeSet<String> {
    let failed = verdicts.iter().filter(|(_, passed)| !**passed);
    failed.map(|(name, _)| name.clone()).collect()
}

/// One unit, run one way.
struct Ended {
    how: How,
    tests: usize,
    failures: BTreeSet<String>,
    /// Of them those that fail neither natively nor only now and then.
    only_here: BTreeSet<String>,
    seconds: f64,
}

/// Runs one unit all ways.
fn all_ways(suite: &dyn Suite, runner: &Runner, unit: &str) -> Result<Vec<Ended>> {
    let mut native = BTreeSet::new();
    let mut limit = LIMIT;
    let mut all = Vec::new();
    for how in HOWS {
        let began = Instant::now();
        let verdicts = runner.run(suite, unit, how, limit)?;
        let seconds = began.elapsed().as_secs_f64();
        let mut failures = failed(&verdicts);
        if how == How::Native {
            native = failures.clone();
            limit = LIMIT.max(began.elapsed() * TIMES);
        } else if !failures.is_subset(&native) {
            // Again, both ways: what fails natively, too, or not again, says nothing of the pager.
            let natively = failed(&runner.run(suite, unit, How::Native, LIMIT)?);
            let again = failed(&runner.run(suite, unit, how, limit)?);
            native.extend(natively);
            failures.retain(|name| native.contains(name) || again.contains(name));
        }
        all.push(Ended {
            how,
            tests: verdicts.len(),
            only_here: failures.difference(&native).cloned().collect(),
            failures,
            seconds,
        });
    }
    Ok(all)
}

/// Runs one suite all ways, a unit at a time with each of `runners`, and adds its rows. Returns the tests that differ.
fn one(
    suite: &dyn Suite,
    runners: &[Runner],
    units: &[&str],
    table: &mut Table,
) -> Result<Vec<String>> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let work = |runner| -> Result<()> {
            while let Some(unit) = units.get(next.fetch_add(1, Relaxed)) {
                let ended = all_ways(suite, runner, unit)?;
                let seconds: Vec<String> = ended
                    .iter()
                    .map(|e| format!("{:.0} s", e.seconds))
                    .collect();
                eprintln!(
                    "{} {}/{}: {unit}: {} tests, {} failed, {}",
                    suite.name(),
                    done.fetch_add(1, Relaxed) + 1,
                    units.len(),
                    ended[0].tests,
                    ended[0].failures.len(),
                    seconds.join(", ")
                );
                for ended in &ended {
                    let here = ended.only_here.iter();
                    here.for_each(|name| eprintln!("    only with {}: {name}", ended.how.name()));
                }
                all.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend(ended);
            }
            Ok(())
        };
        let workers: Vec<_> = runners
            .iter()
            .map(|runner| scope.spawn(move || work(runner)))
            .collect();
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect::<Result<()>>()
    })?;
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    for how in HOWS {
        let of = || all.iter().filter(|ended| ended.how == how);
        table.row(&[
            suite.name().to_owned(),
            how.name().to_owned(),
            units.len().to_string(),
            of().map(|ended| ended.tests).sum::<usize>().to_string(),
            of().map(|ended| ended.failures.len())
                .sum::<usize>()
                .to_string(),
            of().map(|ended| ended.only_here.len())
                .sum::<usize>()
                .to_string(),
            format!("{:.0} s", of().map(|ended| ended.seconds).sum::<f64>()),
        ]);
    }
    let differ = all.iter().flat_map(|ended| {
        let named = |name| format!("{} {}: {name}", suite.name(), ended.how.name());
        ended.only_here.iter().map(named)
    });
    Ok(differ.collect())
}

/// All suites, in the order in which they run.
const SUITES: [&dyn Suite; 4] = [
    &cpython::CPython,
    &redis::Redis,
    &sqlite::Sqlite,
    &jemalloc::Jemalloc,
];

/// Headings of the table.
const HEADINGS: [&str; 7] = [
    "suite",
    "how",
    "units",
    "tests",
    "failed",
    "only here",
    "time",
];

impl Options {
    /// An error if a suite was named that does not exist.
    fn check_names(&self) -> Result<()> {
        let is_known = |name: &str| SUITES.iter().any(|suite| suite.name() == name);
        if let Some(unknown) = self.only.iter().find(|name| !is_known(name)) {
            let names = SUITES.map(|suite| suite.name()).join(", ");
            bail!("no suite {unknown}: there are {names}");
        }
        Ok(())
    }

    /// The units of a suite that are wanted; none where the suite is not.
    fn units_of(&self, suite: &dyn Suite) -> Vec<&'static str> {
        let is_in = |names: &[String], wanted: &str| {
            names.is_empty() || names.iter().any(|name| name == wanted)
        };
        let units = suite.units().iter().copied();
        units
            .filter(|unit| is_in(&self.only, suite.name()) && is_in(&self.test, unit))
            .collect()
    }
}

/// Where suites are kept and run.
struct Ground<'a> {
    options: &'a Options,
    coldpress: PathBuf,
    /// Sources and what was built of them, kept for the next time; a directory a suite.
    work: PathBuf,
    scratch: PathBuf,
}

impl Ground<'_> {
    /// The directory of a suite.
    fn dir_of(&self, suite: &dyn Suite) -> Result<PathBuf> {
        let dir = self.work.join(suite.name());
        std::fs::create_dir_all(&dir)
            .with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    /// The runners of a suite that is prepared in `dir`: one for each unit that runs at once.
    fn runners(&self, suite: &dyn Suite, dir: &Path) -> Result<Vec<Runner<'_>>> {
        let runner = |number| {
            let scratch = self.scratch.join(format!("{}-{number}", suite.name()));
            std::fs::create_dir_all(&scratch)?;
            Ok(Runner {
                number,
                coldpress: self.coldpress.clone(),
                budget: &self.options.budget,
                chaos_rest: &self.options.chaos_rest,
                dir: dir.to_owned(),
                scratch,
            })
        };
        (0..self.options.jobs).map(runner).collect()
    }
}

/// What the suites came to.
struct Outcome {
    table: Table,
    /// Tests that fail only under `coldpress run`.
    differ: Vec<String>,
    /// Suites that could not be run.
    missing: Vec<&'static str>,
}

impl Outcome {
    /// Runs all suites that are wanted.
    fn of(ground: &Ground) -> Result<Outcome> {
        let mut outcome = Outcome {
            table: Table::new(&HEADINGS),
            differ: Vec::new(),
            missing: Vec::new(),
        };
        for suite in SUITES {
            let units = ground.options.units_of(suite);
            if units.is_empty() {
                continue;
            }
            let dir = ground.dir_of(suite)?;
            // What the others have found is not lost with one that cannot be had.
            let prepared = install::packages(suite.packages()).and_then(|()| suite.prepare(&dir));
            if let Err(error) = prepared {
                eprintln!("{}: cannot be run here: {error:#}", suite.name());
                outcome.missing.push(suite.name());
                continue;
            }
            let runners = ground.runners(suite, &dir)?;
            let differ = one(suite, &runners, &units, &mut outcome.table)?;
            outcome.differ.extend(differ);
        }
        Ok(outcome)
    }

    fn print(&self, budget: &str) {
        println!("\n{}", self.table);
        println!("\nEach process of a suite has a budget of {budget} for itself.");
        for line in &self.differ {
            println!("only under coldpress run: {line}");
        }
        for name in &self.missing {
            println!("not run: {name}");
        }
        println!(
            "{} tests fail under coldpress run and not natively",
            self.differ.len()
        );
    }
}

/// Runs all suites; 1 if a test fails only under `coldpress run`.
pub fn run(options: &Options) -> Result<u8> {
    options.check_names()?;
    let coldpress = workspace::build_release()?;
    let (scratch, _removed) = workspace::temporary_dir("suites")?;
    let work = match &options.work {
        Some(work) => work.clone(),
        None => workspace::target_dir()?.join("suites"),
    };
    let outcome = Outcome::of(&Ground {
        options,
        coldpress,
        work,
        scratch,
    })?;
    outcome.print(&options.budget);
    let all_well = outcome.differ.is_empty() && outcome.missing.is_empty();
    Ok(u8::from(!all_well))
}
