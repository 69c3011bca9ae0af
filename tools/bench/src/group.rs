//! `cargo xtask bench group`: a job that needs more than its memory group allows.
//!
//! The job (`programs/table.py` or `programs/records.py`, CPython) runs without a limit, then in a memory group with a limit: as it is, with
//! `coldpress run --` in front and no option, and with swap on a zram device of our own. zram's pool is charged to nobody;
//! what it took is told beside it. With `--processes` several of them run in the group at a time, each as it would alone.

use crate::machine::Machine;
use crate::zram::Zram;
use anyhow::Result;
use coldpress_harness::cgroup::Group;
use coldpress_harness::child::Running;
use coldpress_harness::figures::median;
use coldpress_harness::output;
use coldpress_harness::process::{Sampler, executing};
use coldpress_harness::text::{Table, mib};
use coldpress_harness::{install, workspace};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// The job: a table that is built and gone through once in order, or records that are grouped
    /// and visited at random
    #[arg(long, value_enum, default_value_t = Job::Table)]
    job: Job,
    /// Records that the job holds [default: as many as take 310 MiB]
    #[arg(long)]
    records: Option<u64>,
    /// Limit of the memory group, in MiB
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(32..))]
    limit: u64,
    /// How many of the job run in the group at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    processes: u64,
    /// How often all take turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The system's own: one on the path may be a script that starts another.
const PYTHON: &str = "/usr/bin/python3";

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Job {
    Table,
    Records,
}

impl Job {
    /// Its name and its text.
    fn script(self) -> (&'static str, &'static str) {
        match self {
            Job::Table => ("table.py", include_str!("../programs/table.py")),
            Job::Records => ("records.py", include_str!("../programs/records.py")),
        }
    }

    /// So many take 310 MiB.
    fn records(self) -> u64 {
        match self {
            Job::Table => 750_000,
            Job::Records => 165_000,
        }
    }
}

impl Options {
    fn records(&self) -> u64 {
        self.records.unwrap_or(self.job.records())
    }
}

/// How the job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Unlimited,
    Limited,
    Coldpress,
    Zram,
}

const HOWS: [How; 4] = [How::Unlimited, How::Limited, How::Coldpress, How::Zram];

impl How {
    fn name(self) -> &'static str {
        match self {
            How::Unlimited => "no limit",
            How::Limited => "in the group",
            How::Coldpress => "in the group, coldpress run --",
            How::Zram => "in the group, swap on zram",
        }
    }
}

/// One run: of all processes together.
#[derive(Clone, Debug)]
struct Seen {
    /// Until the last of them had ended.
    seconds: f64,
    /// What each printed that was not killed.
    outputs: Vec<String>,
    /// The most that each held, added up.
    peak_bytes: u64,
    /// The most that zram's pool took.
    pool_bytes: u64,
}

impl Seen {
    fn ended(&self, options: &Options) -> bool {
        self.outputs.len() as u64 == options.processes
    }
}

/// A process of the job that runs.
struct Process {
    job: Running,
    sampler: Sampler,
    output: PathBuf,
}

/// What one run needs.
struct Place<'a> {
    options: &'a Options,
    script: PathBuf,
    coldpress: PathBuf,
    dir: &'a Path,
}

impl Place<'_> {
    /// All rounds.
    fn take_turns(&self) -> Result<[Vec<Seen>; 4]> {
        let options = self.options;
        let mut seen: [Vec<Seen>; 4] = Default::default();
        for round in 1..=options.rounds {
            for (how, seen) in HOWS.into_iter().zip(&mut seen) {
                let one = self.run(how)?;
                eprintln!(
                    "round {round}/{}: {}: {}",
                    options.rounds,
                    how.name(),
                    told(&one, options)
                );
                seen.push(one);
            }
        }
        Ok(seen)
    }

    fn run(&self, how: How) -> Result<Seen> {
        let swap = match how {
            How::Zram => Some(Zram::swap(4 << 30)?),
            _ => None,
        };
        let limit = self.options.limit << 20;
        let group = match how {
            How::Unlimited => None,
            How::Zram => Some(Group::limited(limit, 8 << 30)?),
            _ => Some(Group::limited(limit, 0)?),
        };
        let began = Instant::now();
        let processes = (0..self.options.processes)
            .map(|number| self.start(how, number, group.as_ref(), swap.as_ref()))
            .collect::<Result<Vec<_>>>()?;
        let mut seen = Seen {
            seconds: 0.0,
            outputs: Vec::new(),
            peak_bytes: 0,
            pool_bytes: 0,
        };
        for process in processes {
            let status = process.job.wait_for(Duration::from_secs(900))?;
            seen.seconds = began.elapsed().as_secs_f64();
            let samples = process.sampler.finish();
            let text = fs::read_to_string(&process.output)?;
            seen.peak_bytes += samples.peak();
            let pool = samples.0.iter().map(|s| s.other).max();
            seen.pool_bytes = seen.pool_bytes.max(pool.unwrap_or(0));
            match status.success() && !text.is_empty() {
                true => seen.outputs.push(text),
                false if status.signal() == Some(libc::SIGKILL) => {}
                false => anyhow::bail!("the job failed: {status}"),
            }
        }
        Ok(seen)
    }

    fn start(
        &self,
        how: How,
        number: u64,
        group: Option<&Group>,
        swap: Option<&Zram>,
    ) -> Result<Process> {
        let mut command = match how {
            How::Coldpress => {
                let mut command = Command::new(&self.coldpress);
                command.args(["run", "--", PYTHON]);
                command
            }
            _ => Command::new(PYTHON),
        };
        if let Some(group) = group {
            let joining = group.joining()?;
            // SAFETY: between fork and exec this only writes to an open descriptor.
            unsafe { command.pre_exec(move || (&joining).write_all(b"0")) };
        }
        let output = self.dir.join(format!("output-{number}"));
        command
            .arg(&self.script)
            .arg(self.options.records().to_string())
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(Stdio::inherit());
        let job = Running::start(&mut command, "the job")?;
        let program = match how {
            How::Coldpress => executing(job.id(), Path::new(PYTHON))?,
            _ => job.id(),
        };
        let _ = job.program(program);
        let meter = swap.map(Zram::meter);
        let pool = move || meter.as_ref().map_or(0, |meter| meter().used);
        let sampler = Sampler::start(program, Duration::from_millis(10), pool)?;
        Ok(Process {
            job,
            sampler,
            output,
        })
    }
}

/// Runs all of it; 1 if an output differs from the native one.
pub fn run(options: &Options) -> Result<u8> {
    install::packages(&[install::PYTHON])?;
    let machine = Machine::now();
    let (dir, _guard) = workspace::temporary_dir("group")?;
    let (name, text) = options.job.script();
    let script = dir.join(name);
    fs::write(&script, text)?;
    let coldpress = workspace::build_release()?;
    let place = Place {
        options,
        script,
        coldpress,
        dir: &dir,
    };
    let seen = place.take_turns()?;
    let native = seen[0][0].outputs.first().cloned().unwrap_or_default();
    let mut table = Table::new(&["the job", "ended", "time", "highest RssAnon", "zram's pool"]);
    let mut wrong = 0;
    for (how, seen) in HOWS.into_iter().zip(&seen) {
        let ended = seen.iter().filter(|one| one.ended(options));
        let outputs = seen.iter().flat_map(|one| &one.outputs);
        wrong += outputs.filter(|output| **output != native).count();
        let times: Vec<f64> = ended.clone().map(|one| one.seconds).collect();
        let of = |bytes: fn(&Seen) -> u64| seen.iter().map(bytes).max().unwrap_or(0);
        table.row(&[
            how.name().to_owned(),
            format!("{} of {}", times.len(), seen.len()),
            match times.is_empty() {
                true => "killed".to_owned(),
                false => format!("{:.1} s", median(&times)),
            },
            mib(of(|one| one.peak_bytes)),
            match how {
                How::Zram => mib(of(|one| one.pool_bytes)),
                _ => "–".to_owned(),
            },
        ]);
    }
    println!("\n{table}");
    println!(
        "\n{name}, {} records, {} process(es) in a memory group of {} MiB; medians of {} round(s). {wrong} outputs differed.\n{machine}",
        options.records(),
        options.processes,
        options.limit,
        options.rounds
    );
    if let Some(path) = &options.json {
        let sides = HOWS.into_iter().zip(&seen).map(|(how, seen)| {
            let runs: Vec<Value> = seen.iter().map(|one| json(one, options)).collect();
            json!({"how": how.name(), "runs": runs})
        });
        let all = json!({
            "job": name, "records": options.records(), "limit_bytes": options.limit << 20,
            "processes": options.processes,
            "sides": sides.collect::<Vec<_>>(), "machine": machine.json(),
        });
        output::json(path, &all)?;
    }
    Ok(u8::from(wrong > 0))
}

fn told(one: &Seen, options: &Options) -> String {
    let killed = options.processes as usize - one.outputs.len();
    let how = match (killed, options.processes) {
        (0, _) => "done".to_owned(),
        (_, 1) => "killed".to_owned(),
        (some, all) => format!("{some} of {all} killed"),
    };
    format!(
        "{how} after {:.1} s, {} at most",
        one.seconds,
        mib(one.peak_bytes)
    )
}

fn json(one: &Seen, options: &Options) -> Value {
    json!({
        "seconds": one.seconds, "ended": one.ended(options), "processes_ended": one.outputs.len(),
        "peak_bytes": one.peak_bytes, "pool_bytes": one.pool_bytes,
    })
}
