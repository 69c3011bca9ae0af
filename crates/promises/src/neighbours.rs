//! Two processes under `coldpress run` that have nothing in common but the machine: what one can time
//! of its own memory, by the state that the other's memory is in.
//!
//! The states take turns in every round, in an order by chance, each established anew, the other process
//! asleep while the one measures (but for the last state, in which it is busy). The first two states are
//! one and the same: how much they differ is the noise that everything else is held against.

use crate::Workplace;
use crate::process::lines_of;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// What is timed: for each visit the median, or the 99th percentile, of all touches.
pub const OPERATIONS: [&str; 4] = [
    "touch of an own compressed page",
    "the same, 99th percentile",
    "touch of an own resident page",
    "first touch of a fresh page",
];

/// Where the program's answer holds them.
const ANSWERS: [(&str, &str); 4] = [
    ("compressed", "p50"),
    ("compressed", "p99"),
    ("resident", "p50"),
    ("fresh", "p50"),
];

/// The states of the other's memory.
pub const STATES: [&str; 6] = [
    "resident",
    "resident again",
    "compressed",
    "incompressible",
    "zeros",
    "busy",
];

/// MiB of each region, and pages.
const REGION: u64 = 8;
/// Pages of each region.
pub const PAGES: u64 = REGION * 256;
/// MiB that push them out, under this budget.
const BALLAST: u64 = 32;
const BUDGET: &str = "24M";
/// Each page comes back alone, so that every touch can be timed: a program that wakes gets others with it otherwise.
const ALONE: &str = "coldpress.page-scanner.read-ahead=0";
/// How long the busy one goes on: longer than a visit takes.
const BUSY_MS: u32 = 400;
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Nanoseconds by state, operation and round.
    pub times: [[Vec<f64>; OPERATIONS.len()]; STATES.len()],
    /// Of each visit by state: own pages that were out, and faults that touching them took.
    pub counted: [Vec<(u64, u64)>; STATES.len()],
}

/// Measures so many rounds over the first `states` states under this `coldpress` command, and says
/// after each that it is done.
///
/// # Errors
/// A process cannot be started, or does not answer.
pub fn measure(
    binary: &Path,
    place: &Workplace,
    rounds: usize,
    states: usize,
    mut done: impl FnMut(usize),
) -> Result<Samples> {
    let program = place.compile("neighbour");
    let mut attacker = Neighbour::start(binary, &program, 1)?;
    let mut keeper = Neighbour::start(binary, &program, 2)?;
    let mut samples = Samples::default();
    for round in 0..rounds {
        for state in order(round, states) {
            // Out, so that only what is measured is left to do.
            attacker.away()?;
            keeper.enter(STATES[state])?;
            let answer = attacker.say("measure")?;
            for (of, (name, share)) in samples.times[state].iter_mut().zip(ANSWERS) {
                let time = answer[name][share].as_f64();
                of.push(time.with_context(|| format!("no {name} in {answer}"))?);
            }
            samples.counted[state].push((number(&answer, "absent")?, number(&answer, "faults")?));
        }
        done(round + 1);
    }
    Ok(samples)
}

/// The states of a round in an order by chance, so that none comes after the same one always.
fn order(round: usize, states: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..states).collect();
    let mut state = (round as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for left in (2..=states).rev() {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        order.swap(left - 1, (state >> 33) as usize % left);
    }
    order
}

fn number(answer: &Value, name: &str) -> Result<u64> {
    let value = answer[name].as_u64();
    value.with_context(|| format!("no {name} in {answer}"))
}

/// A process of `programs/neighbour.c`. Dropped, it is told to end, and ended if it does not.
struct Neighbour {
    child: Child,
    to: Option<ChildStdin>,
    answers: Receiver<String>,
    pid: i32,
}

impl Neighbour {
    fn start(binary: &Path, program: &Path, seed: u64) -> Result<Self> {
        let mut command = Command::new(binary);
        command
            .args(["run", "-q", "--budget", BUDGET, "--tune", ALONE, "--"])
            .arg(program);
        command.args([seed, REGION, BALLAST].map(|n| n.to_string()));
        command.env("PROMISES_MANAGED", "1");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start coldpress run")?;
        let to = child.stdin.take();
        let output = child.stdout.take().context("it was piped")?;
        let answers = lines_of(output);
        let mut started = Self {
            child,
            to,
            answers,
            pid: 0,
        };
        started.pid = started.answer("hello")?["pid"].as_i64().context("its id")? as i32;
        Ok(started)
    }

    /// Has it do a step, and gives its answer.
    fn say(&mut self, line: &str) -> Result<Value> {
        let to = self.to.as_mut().context("it has ended")?;
        writeln!(to, "{line}").with_context(|| format!("it ended before {line}"))?;
        self.answer(line.split(' ').next().unwrap_or(line))
    }

    fn answer(&mut self, step: &str) -> Result<Value> {
        let line = self.answers.recv_timeout(STEP_LIMIT);
        let line = line.with_context(|| format!("neighbour does not get to `{step}`"))?;
        match serde_json::from_str::<Value>(&line) {
            Ok(answer) if answer["step"] == step => Ok(answer),
            _ => bail!("neighbour answered `{line}` to `{step}`"),
        }
    }

    /// Has every page of its region out, or all but a few: one that came back soon may have a chance left.
    fn away(&mut self) -> Result<()> {
        let absent = number(&self.say("away")?, "absent")?;
        let most = absent + SPARED >= PAGES;
        ensure!(most, "only {absent} of {PAGES} pages are out");
        Ok(())
    }

    fn enter(&mut self, state: &str) -> Result<()> {
        let content = match state {
            "incompressible" => "fill noise",
            "zeros" => "fill zero",
            _ => "fill text",
        };
        self.say(content)?;
        match state {
            "compressed" | "zeros" => self.away()?,
            "incompressible" => {
                let absent = number(&self.say("press")?, "absent")?;
                ensure!(absent < PAGES / 2, "{absent} pages of noise are out");
            }
            "busy" => drop(self.say(&format!("churn {BUSY_MS}"))?),
            _ => {}
        }
        Ok(())
    }
}

/// Pages that may have second chances left when all others are out.
pub const SPARED: u64 = PAGES / 8;

impl Drop for Neighbour {
    fn drop(&mut self) {
        drop(self.to.take());
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > Duration::from_secs(5) {
                // SAFETY: kill takes two numbers; the process is the program of our own child, which
                // reaps it and is still there.
                unsafe { libc::kill(self.pid, libc::SIGKILL) };
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
