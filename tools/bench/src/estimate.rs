//! `cargo xtask bench estimate`: whether `coldpress estimate` foretells what `coldpress run` then holds.
//!
//! Each program runs twice: as it is, where it is estimated, and under `coldpress run` with its default settings, but
//! without recompression. That goes on for longer than the measurement; and adding back what it has saved by then is
//! wrong by the frames that came free and are kept, by the holes it leaves and by its tables. Each is looked at when it is
//! at rest, or at a limit, which the table tells. At rest natively: its private memory has not changed for [`REST_S`]. At
//! rest under the pager: what is in place has not changed, hardly anything was evicted and hardly anything refaulted for
//! [`REST_S`] and for as long as the cold age is, before which nothing can leave; and the native one is at rest too.
//!
//! That time is longer than the 100 s after which V8 collects its heap once more (its memory reducer's watchdog), so
//! that a program that still waits for its collection does not pass for one at rest.
//!
//! All run side by side, since it is their sizes that are compared, which hardly depend on how busy the machine is. How
//! soon they are reached does: of that nothing is claimed.

use crate::machine::Machine;
use crate::watch;
use anyhow::{Context, Result, bail};
use coldpress_corpus as corpus;
use coldpress_harness::child::Running;
use coldpress_harness::install::{self, PYTHON, Package, REDIS, find_program, program};
use coldpress_harness::managed::Statistics;
use coldpress_harness::output;
use coldpress_harness::process::{largest, resident};
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
    /// The most seconds after which a program is estimated, at rest or not
    #[arg(long, default_value_t = 480, value_parser = clap::value_parser!(u64).range(1..))]
    rest_limit: u64,
    /// The most seconds after which what is held is looked at, at rest or not
    #[arg(long, default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
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

/// For so many seconds nothing may have changed of a program that is at rest.
const REST_S: u64 = 120;
/// The share of its memory that may have changed, left or come back within that time all the same.
const REST_SHARE: f64 = 0.01;

/// What was seen of a process, at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    at_s: u64,
    /// Private memory in place.
    bytes: u64,
    /// Pages that were evicted, or came back, by then.
    moved_pages: u64,
    /// The cold age in force.
    cold_s: u64,
}

/// Whether hardly anything changed for [`REST_S`], and since the cold age has last passed.
fn is_at_rest(moments: &[Moment]) -> bool {
    let Some(last) = moments.last() else {
        return false;
    };
    let Some(since) = moments
        .iter()
        .rposition(|moment| moment.at_s + REST_S.max(last.cold_s) <= last.at_s)
    else {
        return false;
    };
    let within = &moments[since..];
    let bytes = || within.iter().map(|moment| moment.bytes);
    let most = bytes().max().unwrap_or(0) as f64;
    let changed = most - bytes().min().unwrap_or(0) as f64;
    let moved = (last.moved_pages - within[0].moved_pages) as f64 * 4096.0;
    changed <= most * REST_SHARE && moved <= most * REST_SHARE
}

/// What came of one program.
struct Found {
    name: &'static str,
    estimate: Value,
    /// When it was at rest natively, in seconds after it was filled.
    rested: Reached,
    /// When it was at rest under the pager.
    settled: Reached,
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

    fn held(&self) -> u64 {
        self.status("total_bytes")
    }

    /// By how much the estimate is above what was held.
    fn error(&self) -> f64 {
        self.expected("held_bytes") / self.held() as f64 - 1.0
    }
}

/// After how many seconds a program was looked at, and whether it was at rest by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reached {
    after_s: u64,
    is_at_rest: bool,
}

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = match self.is_at_rest {
            true => "",
            false => ", not at rest",
        };
        write!(f, "{} s{at}", self.after_s)
    }
}

/// Looks at a process every five seconds until it is at rest, for `limit_s` at most.
fn until_at_rest(
    filled: Instant,
    limit_s: u64,
    mut look: impl FnMut() -> Result<Moment>,
) -> Result<Reached> {
    let mut moments = Vec::new();
    loop {
        sleep(Duration::from_secs(5));
        let after_s = filled.elapsed().as_secs();
        moments.push(Moment {
            at_s: after_s,
            ..look()?
        });
        let is_at_rest = is_at_rest(&moments);
        if is_at_rest || after_s >= limit_s {
            return Ok(Reached {
                after_s,
                is_at_rest,
            });
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
        "\nwatched for {} s when at rest; held: what run --recode-after none holds when at rest. At rest: less than {:.0} % \
         changed, left or came back within {REST_S} s, and within the cold age. Sizes only: the machine need not be \
         quiet.\n{machine}",
        options.watch,
        REST_SHARE * 100.0
    );
    if let Some(path) = &options.json {
        let found = all.iter().map(|found| {
            json!({
                "program": found.name, "estimate": found.estimate, "held_bytes": found.held(),
                "error": found.error(), "rested_s": found.rested.after_s, "settled_s": found.settled.after_s,
                "is_at_rest": found.rested.is_at_rest && found.settled.is_at_rest, "status": found.status.0,
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
        "--recode-after".into(),
        "none".into(),
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
    let (rested, estimate) = estimated(coldpress, &native, options)?;
    drop(native);
    let pid = largest(managed.running.id())?;
    let settled = until_at_rest(filled, options.limit, || {
        let status = Statistics::live(coldpress, pid)?;
        let count = |name| status.get(name).with_context(|| format!("no {name}"));
        Ok(Moment {
            bytes: count("committed_bytes")?,
            moved_pages: count("evictions")? + count("decompressions")?,
            cold_s: count("cold_after_ms")? / 1000,
            at_s: 0,
        })
    })?;
    let found = Found {
        name: subject.name,
        estimate,
        rested,
        settled,
        status: Statistics::live(coldpress, pid)?,
    };
    eprintln!(
        "{}: estimated {} after {rested}, held {} after {settled}",
        found.name,
        mib(found.expected("held_bytes") as u64),
        mib(found.held()),
    );
    Ok(found)
}

/// Estimates a program that was started natively, once it is at rest.
fn estimated(coldpress: &Path, native: &Job, options: &Options) -> Result<(Reached, Value)> {
    let pid = largest(native.running.id())?;
    let rested = until_at_rest(Instant::now(), options.rest_limit, || {
        Ok(Moment {
            bytes: resident(pid).context("it has ended")?.anonymous,
            ..Moment::default()
        })
    })?;
    let estimate = Command::new(coldpress)
        .args(["estimate", "--json", "--ages", &options.ages, "--watch"])
        .arg(format!("{}s", options.watch))
        .arg(pid.to_string())
        .stderr(Stdio::inherit())
        .output()?;
    if !estimate.status.success() {
        bail!("coldpress estimate ended with {}", estimate.status);
    }
    Ok((rested, serde_json::from_slice(&estimate.stdout)?))
}

fn table(all: &[Found]) -> Table {
    let mut table = Table::new(&[
        "program",
        "native",
        "under run",
        "estimated",
        "held",
        "error",
        "watched after",
        "held after",
        "in place: estimated",
        "held",
        "storage: estimated",
        "held",
        "pager: estimated",
        "held",
    ]);
    for found in all {
        let estimate = &found.estimate;
        let number = |value: &Value| mib(value.as_f64().unwrap_or(0.0) as u64);
        let unmanaged = estimate["native_bytes"].as_f64().unwrap_or(0.0)
            - estimate["manageable_bytes"].as_f64().unwrap_or(0.0);
        let in_place = found.expected("resident_bytes") + found.expected("incompressible_bytes");
        table.row(&[
            found.name.to_owned(),
            number(&estimate["native_bytes"]),
            mib(found.status("content_bytes")),
            mib(found.expected("held_bytes") as u64),
            mib(found.held()),
            format!("{:+.1} %", found.error() * 100.0),
            found.rested.to_string(),
            found.settled.to_string(),
            mib((in_place + unmanaged) as u64),
            mib(found.status("committed_bytes")),
            mib(found.expected("storage_bytes") as u64),
            mib(found.status("storage_bytes")),
            number(&estimate["overhead_bytes"]),
            mib(found.status("overhead_bytes")),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_what_was_held() {
        let reached = |after_s, is_at_rest| Reached {
            after_s,
            is_at_rest,
        };
        let found = Found {
            name: "x",
            estimate: json!({"native_bytes": 400, "by_default": {"held_bytes": 110.0}}),
            rested: reached(125, true),
            settled: reached(900, false),
            status: Statistics(json!({"total_bytes": 100})),
        };
        assert!((found.error() - 0.1).abs() < 1e-9);
        let table = table(&[found]).to_string();
        assert!(
            table.contains("+10.0 %") && table.contains("125 s"),
            "{table}"
        );
        assert!(table.contains("900 s, not at rest"), "{table}");
    }

    /// What was in place had not become less for 30 s: so V8 passed for settled in the middle of its collection, while
    /// its pages came back, and before it.
    #[test]
    fn a_program_rests_when_nothing_comes_and_nothing_goes() {
        let moments = |seconds: u64, bytes: fn(u64) -> u64, moved: fn(u64) -> u64| {
            let moment = |at_s| Moment {
                at_s,
                bytes: bytes(at_s),
                moved_pages: moved(at_s),
                cold_s: 0,
            };
            (0..=seconds).step_by(5).map(moment).collect::<Vec<_>>()
        };
        const SIZE: u64 = 400 << 20;
        assert!(!is_at_rest(&[]));
        assert!(!is_at_rest(&moments(115, |_| SIZE, |_| 0)));
        assert!(is_at_rest(&moments(120, |_| SIZE, |_| 0)));
        assert!(
            !is_at_rest(&moments(300, |at| SIZE + (at << 17), |_| 0)),
            "it comes"
        );
        assert!(
            !is_at_rest(&moments(300, |at| SIZE - (at << 17), |_| 0)),
            "it goes"
        );
        assert!(!is_at_rest(&moments(300, |_| SIZE, |at| at * 20)), "both");
        let jump = |at| SIZE >> u32::from(at >= 200);
        assert!(!is_at_rest(&moments(315, jump, |_| 0)));
        assert!(is_at_rest(&moments(320, jump, |_| 0)));
    }

    /// redis passed for settled while its pages grew old: 43 MiB stayed in place for 228 s, of which 9 left then.
    #[test]
    fn nothing_rests_before_the_cold_age_has_passed() {
        let moments = |seconds: u64, cold_s| {
            let moment = |at_s| Moment {
                at_s,
                bytes: 1 << 30,
                cold_s,
                ..Moment::default()
            };
            (0..=seconds).step_by(5).map(moment).collect::<Vec<_>>()
        };
        assert!(is_at_rest(&moments(125, 60)));
        assert!(!is_at_rest(&moments(225, 228)));
        assert!(is_at_rest(&moments(230, 228)));
    }
}
