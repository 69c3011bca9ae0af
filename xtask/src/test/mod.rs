//! `cargo xtask test`: everything that must pass before a change is kept.
//!
//! The steps run in order and the first that fails ends the run with the command that repeats
//! it. The preload library has no standard library and its own panic handler, so it is checked
//! on its own and is not under the test harness. The promises are tests of the finished command
//! on real programs: they run in release, one at a time, because they measure memory and time.

mod tally;

use crate::child::Running;
use crate::install::{self, Package, Probe, program};
use crate::workspace;
use anyhow::Result;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;
use tally::Tally;

/// Options of the test task.
#[derive(clap::Args, Debug)]
pub struct Options {}

const PACKAGES: &[Package] = &[
    install::GCC,
    program("g++", "g++"),
    install::REDIS,
    program("redis-tools", "redis-cli"),
    program("memtester", "memtester"),
    install::PYTHON,
    Package {
        name: "python3-numpy",
        probe: Probe::PythonModule("numpy"),
    },
    program("util-linux", "setpriv"),
];

/// One step: a cargo command.
struct Step {
    headline: &'static str,
    arguments: Vec<&'static str>,
    environment: Vec<(&'static str, String)>,
}

impl Step {
    fn new(headline: &'static str, arguments: &'static str) -> Step {
        Step {
            headline,
            arguments: arguments.split(' ').collect(),
            environment: Vec::new(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Step {
        self.environment.push((name, value.into()));
        self
    }

    /// The command as one types it.
    fn line(&self) -> String {
        let quoted = |value: &str| match value.contains(' ') {
            true => format!("'{value}'"),
            false => value.to_owned(),
        };
        let settings = self.environment.iter();
        let settings = settings.map(|(name, value)| format!("{name}={} ", quoted(value)));
        settings.collect::<String>() + "cargo " + &self.arguments.join(" ")
    }
}

fn steps() -> Result<Vec<Step>> {
    let binary = workspace::target_dir()?.join("release/coldpress");
    Ok(vec![
        Step::new("Formatting", "fmt --all --check"),
        Step::new(
            "Lints",
            "clippy --workspace --exclude coldpress-preload --all-targets -- -D warnings",
        ),
        Step::new(
            "Lints of the preload library",
            "clippy -p coldpress-preload --lib -- -D warnings",
        ),
        Step::new("Documentation", "doc --workspace --no-deps").with("RUSTDOCFLAGS", "-D warnings"),
        Step::new(
            "The command and the preload library",
            "build --release -p coldpress-cli -p coldpress-preload",
        ),
        Step::new(
            "Tests of the crates",
            "test --workspace --exclude coldpress-preload --exclude coldpress-promises \
             --no-fail-fast -- --show-output",
        ),
        Step::new(
            "Promises, on real programs",
            "test --release -p coldpress-promises --no-fail-fast -- --test-threads=1 --show-output",
        )
        .with("COLDPRESS_BIN", binary.display().to_string()),
    ])
}

/// Runs all steps; 1 if one failed.
pub fn run(_options: &Options) -> Result<u8> {
    install::packages(PACKAGES)?;
    install::components(&[("fmt", "rustfmt"), ("clippy", "clippy")])?;
    let steps = steps()?;
    let tally = Mutex::new(Tally::default());
    let mut failed_step = None;
    for (number, step) in steps.iter().enumerate() {
        println!(
            "\n== {}/{} {}: {}",
            number + 1,
            steps.len(),
            step.headline,
            step.line()
        );
        let begun = Instant::now();
        let passed = perform(step, &tally)?;
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "== {} in {seconds:.1} s",
            if passed { "passed" } else { "FAILED" }
        );
        if !passed {
            failed_step = Some(step);
            break;
        }
    }
    let tally = tally.into_inner().expect("no reader panicked");
    println!();
    for line in tally.skip_lines() {
        println!("{line}");
    }
    let mut failed = tally.failed();
    if let Some(step) = failed_step {
        println!(
            "FAILED: {}; repeat it with:\n  {}",
            step.headline,
            step.line()
        );
        failed = failed.max(1);
    }
    println!(
        "{} passed, {failed} failed, {} skipped",
        tally.passed(),
        tally.skipped()
    );
    Ok(u8::from(failed > 0))
}

/// Runs one step, shows its output as it comes and counts it.
fn perform(step: &Step, tally: &Mutex<Tally>) -> Result<bool> {
    let mut command = workspace::cargo();
    command
        .args(&step.arguments)
        .envs(step.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null());
    if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let (running, output, messages) = start(&mut command, step.headline)?;
    std::thread::scope(|scope| {
        // A test that is too quick for its own capture writes SKIPPED to either stream.
        scope.spawn(|| follow(output, std::io::stdout(), tally));
        scope.spawn(|| follow(messages, std::io::stderr(), tally));
    });
    Ok(running.wait()?.success())
}

type Pipe = Box<dyn Read + Send>;

fn start(command: &mut Command, what: &str) -> Result<(Running, Pipe, Pipe)> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::start(command, what)?;
    let (output, messages) = running.outputs().expect("both were piped");
    Ok((running, Box::new(output), Box::new(messages)))
}

/// Copies lines, counting them. What is no UTF-8 is shown as it can be.
fn follow(from: Pipe, mut to: impl Write, tally: &Mutex<Tally>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while matches!(from.read_until(b'\n', &mut line), Ok(length) if length > 0) {
        // Nothing to be done where our own output is closed.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        let text = String::from_utf8_lossy(&line);
        tally.lock().expect("no reader panicked").line(&text);
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_can_be_repeated_by_hand() {
        let step = Step::new("Documentation", "doc --no-deps").with("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(
            step.line(),
            "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps"
        );
        for step in steps().unwrap() {
            assert!(
                !step.arguments.iter().any(|a| a.is_empty()),
                "{}",
                step.line()
            );
        }
    }
}
