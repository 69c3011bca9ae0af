//! The measured program, `crates/promises/programs/bench_pages.c`: compiled, started, steered.
//!
//! It tells each step in one line of JSON and waits for a line before the next, so that memory
//! and counters are read while it stands still, and so that it can be put into a cgroup before
//! it takes memory. What it measures itself is in those lines; what is measured from outside
//! (memory held, pages in and out, the pager's statistics) is added here.

use crate::zram::{self, Pool, Swapped, Zram};
use anyhow::{Context, Result, bail};
use coldpress_harness::cgroup::Group;
use coldpress_harness::child::Running;
use coldpress_harness::cleanup;
use coldpress_harness::managed::{Statistics, Wrapper};
use coldpress_harness::process::{Sample, Sampler};
use coldpress_promises::process::lines_of;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Longest time any step may take.
const STEP_LIMIT: Duration = Duration::from_secs(180);
/// Pause after filling, so that reclaim that is behind can catch up.
const SETTLE: Duration = Duration::from_millis(500);

/// The program and its parameters.
#[derive(Clone, Debug)]
pub struct Program {
    /// The compiled program.
    pub path: PathBuf,
    /// Size of its mapping.
    pub mebibytes: u64,
    /// Time it touches pages for.
    pub seconds: f64,
    /// Seed of contents and touches.
    pub seed: u64,
    /// Touches longer than this count as faults.
    pub threshold_ns: u64,
}

/// The program was ended by SIGKILL, which nobody but the kernel's OOM killer sends here.
#[derive(Debug)]
pub struct Killed;

impl std::fmt::Display for Killed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("bench_pages was killed, most likely by the kernel's OOM killer")
    }
}

impl std::error::Error for Killed {}

/// Where a run takes place.
pub enum Place<'a> {
    /// As it is, or under coldpress.
    Free(&'a Wrapper),
    /// With memory limited to so many bytes, and the rest on this swap device.
    Swapping(&'a Zram, u64),
}

/// What one run showed.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Touches done.
    pub touches: f64,
    /// Time of the phase, in seconds.
    pub seconds: f64,
    /// Time of filling, in seconds.
    pub fill_seconds: f64,
    /// Touches longer than the threshold.
    pub slow: f64,
    /// Their median, in nanoseconds.
    pub p50_ns: f64,
    /// Their 99th percentile, in nanoseconds.
    pub p99_ns: f64,
    /// Their mean, in nanoseconds.
    pub mean_ns: f64,
    /// User time of all threads of the process in the phase, in seconds.
    pub user_seconds: f64,
    /// Kernel time of them, in seconds.
    pub system_seconds: f64,
    /// Memory held in the phase (private, shared and pool together), mean, in bytes.
    pub held_mean: f64,
    /// The same at its peak.
    pub held_peak: f64,
    /// The same at its peak while filling: what the limit was worth when memory was taken.
    pub filling_peak: f64,
    /// RssAnon alone, mean, in bytes.
    pub resident_mean: f64,
    /// Pages that came in during the phase.
    pub pages_in: f64,
    /// Pages that went out during the phase.
    pub pages_out: f64,
    /// The device at the end of the phase.
    pub pool: Option<Pool>,
    /// The pager's statistics at the end of the phase.
    pub statistics: Option<Statistics>,
    /// CPU at the start of the phase, at its end, and migrations seen at touches.
    pub placement: (u64, u64, u64),
    /// Wrong check words and wrong pages.
    pub wrong: u64,
}

impl Round {
    /// Touches a second.
    pub fn rate(&self) -> f64 {
        self.touches / self.seconds
    }

    /// CPU time of the phase, in seconds.
    pub fn cpu(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Out-and-in cycles of pages: half of all that went either way.
    pub fn cycles(&self) -> f64 {
        (self.pages_in + self.pages_out) / 2.0
    }

    /// The figures as JSON.
    pub fn json(&self) -> Value {
        json!({
            "touches": self.touches, "seconds": self.seconds, "fill_seconds": self.fill_seconds,
            "slow_touches": self.slow, "slow_p50_ns": self.p50_ns, "slow_p99_ns": self.p99_ns,
            "slow_mean_ns": self.mean_ns, "user_seconds": self.user_seconds,
            "system_seconds": self.system_seconds, "held_mean_bytes": self.held_mean,
            "held_peak_bytes": self.held_peak, "filling_peak_bytes": self.filling_peak, "rss_anon_mean_bytes": self.resident_mean,
            "pages_in": self.pages_in, "pages_out": self.pages_out,
            "zram": self.pool.map(|p| json!({
                "orig_data_size": p.original, "compr_data_size": p.compressed,
                "mem_used_total": p.used,
            })),
            "statistics": self.statistics.as_ref().map(|s| s.0.clone()),
            "first_cpu": self.placement.0, "last_cpu": self.placement.1,
            "migrations": self.placement.2, "wrong": self.wrong,
        })
    }
}

impl Place<'_> {
    /// What the program is started with.
    fn wrapper(&self) -> Wrapper {
        match self {
            Place::Free(wrapper) => (*wrapper).clone(),
            Place::Swapping(..) => Wrapper::Native,
        }
    }

    /// The group that limits memory here; `None`: none does.
    fn group(&self) -> Result<Option<Group>> {
        match self {
            Place::Free(_) => Ok(None),
            Place::Swapping(_, limit) => Group::limited(*limit, 8 << 30).map(Some),
        }
    }
}

/// The counters of pages that went either way, at one moment.
struct Counters {
    swapped: Swapped,
    /// The pager's, where there is one.
    statistics: Option<Statistics>,
}

impl Counters {
    /// Reads them of this process; `when` is for the warning.
    fn read(wrapper: &Wrapper, pid: u32, when: &str) -> Result<Counters> {
        let swapped = zram::swapped()?;
        let statistics = match wrapper {
            Wrapper::Native => None,
            Wrapper::Managed { binary, .. } => Statistics::live(binary, pid)
                .inspect_err(|error| eprintln!("warning: no statistics {when}: {error:#}"))
                .ok(),
        };
        Ok(Counters {
            swapped,
            statistics,
        })
    }

    /// Pages that came in and that went out since `before`: by the kernel's counters where there is a pool, by the
    /// pager's otherwise.
    fn since(&self, before: &Counters, pool: Option<&Pool>) -> (u64, u64) {
        match (pool, &before.statistics, &self.statistics) {
            (Some(_), ..) => (
                self.swapped.pages_in - before.swapped.pages_in,
                self.swapped.pages_out - before.swapped.pages_out,
            ),
            (None, Some(before), Some(after)) => {
                let sum = |names: &[&str]| names.iter().map(|n| after.since(before, n)).sum();
                (
                    sum(&["decompressions", "faults_copied", "faults_same_filled"]),
                    sum(&["evictions"]),
                )
            }
            _ => (0, 0),
        }
    }
}

/// What the program said of its steps.
struct Said {
    filled: Value,
    touched: Value,
    verified: Value,
}

impl Said {
    /// The part of a round that the program measured itself.
    fn round(&self) -> Result<Round> {
        let phase = |name| number(&self.touched, name);
        Ok(Round {
            touches: phase("touches")?,
            seconds: phase("seconds")?,
            fill_seconds: number(&self.filled, "seconds")?,
            slow: phase("slow")?,
            p50_ns: phase("slow_p50_ns")?,
            p99_ns: phase("slow_p99_ns")?,
            mean_ns: phase("slow_mean_ns")?,
            user_seconds: phase("user_seconds")?,
            system_seconds: phase("system_seconds")?,
            placement: (
                phase("first_cpu")? as u64,
                phase("last_cpu")? as u64,
                phase("migrations")? as u64,
            ),
            wrong: phase("wrong")? as u64 + number(&self.verified, "wrong")? as u64,
            ..Round::default()
        })
    }
}

/// Runs the program once.
pub fn run(program: &Program, place: &Place) -> Result<Round> {
    let wrapper = place.wrapper();
    let group = place.group()?;
    let meter = match place {
        Place::Free(_) => None,
        Place::Swapping(device, _) => Some(device.meter()),
    };
    let mut steps = Steps::start(program, &wrapper)?;
    let pid = number(&steps.next("hello")?, "pid")? as u32;
    steps.running.program(pid)?;
    if let Some(group) = &group {
        group.admit(pid)?;
    }
    let sampler = || {
        let meter = meter.clone();
        Sampler::start(pid, Duration::from_millis(10), move || {
            meter.as_ref().map_or(0, |meter| meter().used)
        })
    };
    let filling = sampler()?;
    let filled = steps.go("filled")?;
    let filling = filling.finish();
    std::thread::sleep(SETTLE);

    let before = Counters::read(&wrapper, pid, "before the phase")?;
    let sampler = sampler()?;
    let touched = steps.go("touched")?;
    let samples = sampler.finish();
    let after = Counters::read(&wrapper, pid, "after the phase")?;
    let pool = meter.map(|meter| meter());
    let verified = steps.go("verified")?;
    steps.finish()?;

    let (pages_in, pages_out) = after.since(&before, pool.as_ref());
    let held = |s: &Sample| s.resident.anonymous + s.resident.shared + s.other;
    let said = Said {
        filled,
        touched,
        verified,
    };
    Ok(Round {
        held_mean: samples.mean(held) as f64,
        held_peak: samples.0.iter().map(held).max().unwrap_or(0) as f64,
        filling_peak: filling.0.iter().map(held).max().unwrap_or(0) as f64,
        resident_mean: samples.mean(|s| s.resident.anonymous) as f64,
        pages_in: pages_in as f64,
        pages_out: pages_out as f64,
        pool,
        statistics: after.statistics,
        ..said.round()?
    })
}

fn number(step: &Value, name: &str) -> Result<f64> {
    step[name]
        .as_f64()
        .with_context(|| format!("bench_pages told no {name}"))
}

/// The running program and its lines.
struct Steps {
    running: Running,
    go: ChildStdin,
    lines: Receiver<String>,
}

impl Steps {
    fn start(program: &Program, wrapper: &Wrapper) -> Result<Steps> {
        let mut command = wrapper.command(&program.path);
        command
            .arg(program.mebibytes.to_string())
            .arg(program.seconds.to_string())
            .arg(program.seed.to_string())
            .arg(program.threshold_ns.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let running = Running::start(&mut command, "bench_pages")?;
        let (go, output) = running.pipes().expect("both were piped");
        let lines = lines_of(output);
        Ok(Steps { running, go, lines })
    }

    /// The next line, which must be of this step.
    fn next(&mut self, step: &str) -> Result<Value> {
        let line = match self.lines.recv_timeout(STEP_LIMIT) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                bail!(
                    "bench_pages does not get to {step:?} within {} s",
                    STEP_LIMIT.as_secs()
                )
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                cleanup::park_if_stopping();
                let status = self.running.wait_for(Duration::from_secs(5))?;
                if status.signal() == Some(libc::SIGKILL) {
                    return Err(Killed.into());
                }
                bail!("bench_pages ended before {step:?}: {status}")
            }
        };
        let value: Value =
            serde_json::from_str(&line).with_context(|| format!("bench_pages printed {line:?}"))?;
        if value["step"] != step {
            bail!("bench_pages printed {line} instead of step {step:?}");
        }
        Ok(value)
    }

    /// Lets the program go on, and waits for its line.
    fn go(&mut self, step: &str) -> Result<Value> {
        self.go.write_all(b"\n").context("bench_pages has ended")?;
        self.next(step)
    }

    fn finish(mut self) -> Result<()> {
        self.go.write_all(b"\n").context("bench_pages has ended")?;
        let status = self.running.wait_for(Duration::from_secs(30))?;
        if !status.success() {
            bail!("bench_pages ended with {status}");
        }
        Ok(())
    }
}
