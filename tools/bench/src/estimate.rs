//! `cargo xtask bench estimate`: whether `coldpress estimate` foretells what `coldpress run` then holds.
//!
//! Each program runs twice: as it is, where it is estimated after it has rested, and under `coldpress run --` without an
//! option, where it is looked at after it has rested longer. All run side by side, since it is their sizes that are
//! compared, which hardly depend on how busy the machine is. How soon they are reached does: of that nothing is claimed.

use crate::machine::Machine;
use crate::watch;
use anyhow::{Context, Result, bail};
use coldpress_corpus as corpus;
use coldpress_harness::child::Running;
use coldpress_harness::install::{self, PYTHON, Package, REDIS, find_program, program};
use coldpress_harness::managed::Statistics;
use coldpress_harness::output;
use coldpress_harness::process::largest;
use coldpress_harness::text::{Table, mib};
use coldpress_harness::workspace;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only this program (can be repeated)
    #[arg(long = "only", value_name = "NAME")]
    only: Vec<String>,
    /// Seconds that a program rests before it is estimated
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    rest: u64,
    /// Seconds that it is watched
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    watch: u64,
    /// How ages are found: auto, damon or clear-refs
    #[arg(long, default_value = "auto")]
    ages: String,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The longest that a program may take to be filled.
const LIMIT: Duration = Duration::from_secs(600);

/// A program.
struct Subject {
    name: &'static str,
    needs: &'static [Package],
    /// Starts it, in a directory of its own, behind a command line; returns when it holds its data.
    start: fn(&Place<'_>) -> Result<Job>,
}

const SUBJECTS: [Subject; 6] = [
    Subject {
        name: "tsc",
        needs: &[program("nodejs", "node"), program("node-typescript", "tsc")],
        start: tsc,
    },
    Subject {
        name: "redis",
        needs: &[REDIS, PYTHON],
        start: redis,
    },
    Subject {
        name: "pandas",
        needs: &[PYTHON, corpus::PANDAS],
        start: |place| place.filled("pandas", &["frames.py", "700000"]),
    },
    Subject {
        name: "jvm",
        needs: &[corpus::JAVA],
        start: |place| place.filled("java", &["-Xmx256m", "Heap.java", "60000"]),
    },
    Subject {
        name: "node",
        needs: &[corpus::NODE],
        start: |place| place.filled("node", &["heap.js", "250000"]),
    },
    Subject {
        name: "service",
        needs: &[PYTHON],
        start: service,
    },
];

/// A running program, with what must stay open.
struct Job {
    running: Running,
    _others: Vec<Running>,
    _pipe: Option<std::process::ChildStdin>,
}

/// Where and how a program is started.
struct Place<'a> {
    /// What comes before its command line; none: nothing.
    before: &'a [String],
    dir: PathBuf,
}

impl Place<'_> {
    /// A command that starts `program`.
    fn command(&self, program: &Path) -> Command {
        match self.before.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        }
    }

    /// A program that says `filled` when it is.
    fn filled(&self, module: &str, arguments: &[&str]) -> Result<Job> {
        let program = match module {
            "java" | "node" => find_program(module).with_context(|| format!("no {module} here"))?,
            module => PathBuf::from(corpus::python(module).get_program()),
        };
        let mut command = self.command(&program);
        command.args(arguments).current_dir(corpus::programs());
        self.until_filled(&mut command, module)
    }

    fn until_filled(&self, command: &mut Command, name: &str) -> Result<Job> {
        let log = self.dir.join("log");
        command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(File::create(&log)?);
        let running = Running::start_group(command, name)?;
        wait_for(&running, &log, "filled")?;
        Ok(Job {
            _pipe: running.input(),
            running,
            _others: Vec::new(),
        })
    }
}

/// Waits until a file says so.
fn wait_for(running: &Running, log: &Path, word: &str) -> Result<()> {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(log)?;
        if text.contains(word) {
            return Ok(());
        }
        if let Some(status) = running.ended()? {
            bail!("it has ended: {status}\n{text}");
        }
        if began.elapsed() > LIMIT {
            bail!("it was not filled in time");
        }
        sleep(Duration::from_millis(50));
    }
}

fn tsc(place: &Place<'_>) -> Result<Job> {
    watch::write_project(&place.dir, 600)?;
    let compiler = find_program("tsc").context("no tsc here")?;
    let log = place.dir.join("log");
    let mut command = place.command(&compiler);
    command
        .arg("--watch")
        .current_dir(&place.dir)
        .stdin(Stdio::null())
        .stdout(File::create(&log)?);
    let running = Running::start_group(&mut command, "tsc --watch")?;
    wait_for(&running, &log, "Found 0 errors")?;
    Ok(Job {
        running,
        _others: Vec::new(),
        _pipe: None,
    })
}

/// A server with JSON values, of which a client reads every twentieth again and again.
fn redis(place: &Place<'_>) -> Result<Job> {
    let socket = place.dir.join("socket");
    let server = find_program("redis-server").context("no redis-server here")?;
    let mut command = place.command(&server);
    command
        .args([
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--unixsocket",
        ])
        .arg(&socket)
        .arg("--dir")
        .arg(&place.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let running = Running::start_group(&mut command, "redis-server")?;
    let began = Instant::now();
    while !socket.exists() {
        if running.ended()?.is_some() || began.elapsed() > LIMIT {
            bail!("redis-server opens no socket");
        }
        sleep(Duration::from_millis(20));
    }
    let python = PathBuf::from(corpus::python("sys").get_program());
    let mut load = Command::new(&python);
    load.arg("redis_load.py").arg(&socket).arg("100000");
    load.current_dir(corpus::programs());
    let loader = place.until_filled(&mut load, "redis's loader")?;
    drop(loader);
    let script = place.dir.join("reader.py");
    fs::write(&script, include_str!("../programs/reader.py"))?;
    let mut read = Command::new(&python);
    read.arg(&script).arg(&socket).stdin(Stdio::null());
    let reader = Running::start_group(&mut read, "redis's reader")?;
    Ok(Job {
        running,
        _others: vec![reader],
        _pipe: None,
    })
}

/// Records in CPython, of which every tenth is used all the time.
fn service(place: &Place<'_>) -> Result<Job> {
    let script = place.dir.join("service.py");
    fs::write(&script, include_str!("../programs/service.py"))?;
    let python = PathBuf::from(corpus::python("sys").get_program());
    let mut command = place.command(&python);
    command.arg(&script);
    place.until_filled(&mut command, "the service")
}

/// What is held is looked at when no more goes, and after so many seconds at the latest.
const LATEST: u64 = 600;

/// What came of one program.
struct Found {
    name: &'static str,
    estimate: Value,
    /// When no more went, in seconds after it was filled.
    after_s: u64,
    status: Statistics,
}

impl Found {
    fn expected(&self, key: &str) -> f64 {
        let value = &self.estimate["by_default"][key];
        value.as_f64().unwrap_or(f64::NAN)
    }

    fn status(&self, key: &str) -> u64 {
        self.status.get(key).unwrap_or(0)
    }

    /// What is held, as if nothing had been stored anew, denser: that is told apart, since it goes on for minutes.
    fn held(&self) -> u64 {
        self.status("total_bytes") + self.status("recode_saved_bytes")
    }

    /// By how much the estimate is above what was held.
    fn error(&self) -> f64 {
        self.expected("held_bytes") / self.held() as f64 - 1.0
    }
}

/// Waits until no more of a program's memory goes: it had time to become as old as it must be, and what is in place has
/// not become less for a while. How many seconds after `filled` that was.
fn settled(coldpress: &Path, pid: u32, filled: Instant) -> Result<(u64, Statistics)> {
    const FLAT: usize = 6;
    let mut in_place: Vec<u64> = Vec::new();
    loop {
        sleep(Duration::from_secs(5));
        let status = Statistics::live(coldpress, pid)?;
        in_place.push(status.get("committed_bytes").context("nothing in place")?);
        let passed = filled.elapsed().as_secs();
        let old_enough = 20 + status.get("cold_after_ms").unwrap_or(0) * 3 / 2000;
        let is_flat = match in_place.rchunks(FLAT).next() {
            Some(last) if last.len() == FLAT => last[FLAT - 1] * 100 >= last[0] * 99,
            _ => false,
        };
        if passed >= LATEST || (is_flat && passed >= old_enough.max(60)) {
            return Ok((passed, status));
        }
    }
}

/// Runs all of it; 1 if an estimate misses what was held by more than a tenth.
pub fn run(options: &Options) -> Result<u8> {
    let is_wanted = |subject: &&Subject| {
        options.only.is_empty() || options.only.iter().any(|only| only == subject.name)
    };
    let wanted: Vec<&Subject> = SUBJECTS.iter().filter(is_wanted).collect();
    let mut needs: Vec<Package> = Vec::new();
    for package in wanted.iter().flat_map(|subject| subject.needs) {
        if needs.iter().all(|need| need.name != package.name) {
            needs.push(*package);
        }
    }
    install::packages(&needs)?;
    let machine = Machine::now();
    let coldpress = workspace::coldpress()?;
    let found: Vec<Result<Found>> = thread::scope(|scope| {
        let threads: Vec<_> = wanted
            .into_iter()
            .map(|subject| (subject, scope.spawn(|| one(subject, &coldpress, options))))
            .collect();
        let joined = threads.into_iter().map(|(subject, thread)| {
            let found = thread.join().unwrap_or_else(|_| bail!("it panicked"));
            found.with_context(|| format!("{} was not compared", subject.name))
        });
        joined.collect()
    });
    let all = found.into_iter().collect::<Result<Vec<Found>>>()?;
    println!("\n{}", table(&all));
    println!(
        "\nwatched for {} s after {} s of rest; held: what run holds when no more goes, as if nothing had been stored \
         anew. Sizes only: the machine need not be quiet.\n{machine}",
        options.watch, options.rest
    );
    if let Some(path) = &options.json {
        let found = all.iter().map(|found| {
            json!({
                "program": found.name, "estimate": found.estimate, "held_bytes": found.held(),
                "error": found.error(), "after_s": found.after_s, "status": found.status.0,
            })
        });
        let found: Vec<Value> = found.collect();
        output::json(
            path,
            &json!({ "programs": found, "machine": machine.json() }),
        )?;
    }
    Ok(u8::from(all.iter().any(|found| found.error().abs() > 0.1)))
}

fn one(subject: &Subject, coldpress: &Path, options: &Options) -> Result<Found> {
    let (native_dir, _native_guard) =
        workspace::temporary_dir(&format!("estimate-native-{}", subject.name))?;
    let (managed_dir, _managed_guard) =
        workspace::temporary_dir(&format!("estimate-managed-{}", subject.name))?;
    let run = [
        coldpress.display().to_string(),
        "run".into(),
        "-q".into(),
        "--".into(),
    ];
    eprintln!(
        "{}: filling, under coldpress run and as it is",
        subject.name
    );
    let managed = (subject.start)(&Place {
        before: &run,
        dir: managed_dir,
    })?;
    let filled = Instant::now();
    let native = (subject.start)(&Place {
        before: &[],
        dir: native_dir,
    })?;
    sleep(Duration::from_secs(options.rest));
    let pid = largest(native.running.id())?;
    let estimate = Command::new(coldpress)
        .args(["estimate", "--json", "--ages", &options.ages, "--watch"])
        .arg(format!("{}s", options.watch))
        .arg(pid.to_string())
        .stderr(Stdio::inherit())
        .output()?;
    if !estimate.status.success() {
        bail!("coldpress estimate ended with {}", estimate.status);
    }
    let estimate = serde_json::from_slice(&estimate.stdout)?;
    drop(native);
    let pid = largest(managed.running.id())?;
    let (after_s, status) = settled(coldpress, pid, filled)?;
    let found = Found {
        name: subject.name,
        estimate,
        after_s,
        status,
    };
    eprintln!(
        "{}: estimated {}, held {} after {after_s} s",
        found.name,
        mib(found.expected("held_bytes") as u64),
        mib(found.held()),
    );
    Ok(found)
}

fn table(all: &[Found]) -> Table {
    let mut table = Table::new(&[
        "program",
        "native",
        "under run",
        "estimated",
        "held",
        "error",
        "after",
        "in place: estimated",
        "held",
        "pager: estimated",
        "held",
        "saved by storing anew",
    ]);
    for found in all {
        let estimate = &found.estimate;
        let number = |value: &Value| mib(value.as_f64().unwrap_or(0.0) as u64);
        let unmanaged = estimate["native_bytes"].as_f64().unwrap_or(0.0)
            - estimate["manageable_bytes"].as_f64().unwrap_or(0.0);
        table.row(&[
            found.name.to_owned(),
            number(&estimate["native_bytes"]),
            mib(found.status("content_bytes")),
            mib(found.expected("held_bytes") as u64),
            mib(found.held()),
            format!("{:+.1} %", found.error() * 100.0),
            format!("{} s", found.after_s),
            mib((found.expected("resident_bytes") + unmanaged) as u64),
            mib(found.status("committed_bytes")),
            number(&estimate["overhead_bytes"]),
            mib(found.status("overhead_bytes")),
            mib(found.status("recode_saved_bytes")),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_what_was_held() {
        let found = Found {
            name: "x",
            estimate: json!({"native_bytes": 400, "by_default": {"held_bytes": 110.0}}),
            after_s: 70,
            status: Statistics(json!({"total_bytes": 90, "recode_saved_bytes": 10})),
        };
        assert!((found.error() - 0.1).abs() < 1e-9);
        assert!(table(&[found]).to_string().contains("+10.0 %"));
    }
}
