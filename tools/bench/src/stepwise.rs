//! A program that tells each of its steps in a line of JSON, natively or under `coldpress run`, and
//! its resident memory seen from outside.
//!
//! The programs are those that include `crates/promises/programs/bench.h`.

use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::managed::Statistics;
use coldpress_harness::{install, workspace};
use coldpress_promises::process::lines_of;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a measuring verb with these options works with.
pub struct Bench<'a, Options> {
    pub options: &'a Options,
    /// The command.
    pub coldpress: PathBuf,
    /// What it runs.
    pub program: PathBuf,
    /// Where files go.
    pub dir: &'a Path,
}

impl<'a, Options> Bench<'a, Options> {
    /// Builds the command and the program.
    pub fn new(options: &'a Options, program: &str, dir: &'a Path) -> Result<Self> {
        Ok(Self {
            options,
            coldpress: workspace::coldpress()?,
            program: compile(program, dir)?,
            dir,
        })
    }
}

/// Compiles a program into `dir`.
pub fn compile(name: &str, dir: &Path) -> Result<PathBuf> {
    let source = workspace::root().join(format!("crates/promises/programs/{name}.c"));
    let target = dir.join(name);
    let compiler = install::find_program("gcc").context("no gcc here")?;
    let status = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&target)
        .arg(&source)
        .status()?;
    match status.success() {
        true => Ok(target),
        false => bail!("{} does not compile", source.display()),
    }
}

/// How a program is started.
#[derive(Clone, Debug)]
pub struct How {
    /// The command and what it is told; `None`: the program as it is.
    managed: Option<(PathBuf, Vec<String>)>,
    environment: Vec<(OsString, OsString)>,
}

impl How {
    /// As it is.
    pub fn native() -> How {
        How {
            managed: None,
            environment: Vec::new(),
        }
    }

    /// Under `coldpress run` with these options.
    pub fn managed(coldpress: &Path, options: &[&str]) -> How {
        let options = options.iter().map(|&option| option.to_owned());
        How {
            managed: Some((coldpress.to_owned(), options.collect())),
            environment: Vec::new(),
        }
    }

    /// With a variable in its environment.
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> How {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// A command that starts `program`; arguments can be added to it.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = match &self.managed {
            None => Command::new(program),
            Some((coldpress, options)) => {
                let mut command = Command::new(coldpress);
                command.arg("run").args(options).arg("--").arg(program);
                command
            }
        };
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A running program and its lines.
pub struct Stepwise {
    running: Running,
    go: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: JoinHandle<String>,
    name: String,
    /// The program's own process id.
    pub pid: u32,
}

impl Stepwise {
    /// Starts the program; it stands before its first step.
    pub fn start(how: &How, program: &Path, arguments: &[String]) -> Result<Stepwise> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let mut command = how.command(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let running = Running::start(&mut command, &name)?;
        let mut errors = running.errors().expect("it was piped");
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let (go, output) = running.pipes().expect("both were piped");
        let lines = lines_of(output);
        let mut program = Stepwise {
            running,
            go: Some(go),
            lines,
            errors,
            name: name.into_owned(),
            pid: 0,
        };
        let hello = program.next("hello", Duration::from_secs(30))?;
        program.pid = hello["pid"].as_u64().context("hello without a pid")? as u32;
        program.running.program(program.pid)?;
        Ok(program)
    }

    /// Lets the program go on.
    pub fn go(&mut self) -> Result<()> {
        let go = self.go.as_mut().context("its input is closed")?;
        go.write_all(b"\n")
            .with_context(|| format!("{} has ended", self.name))
    }

    /// The next line, which must be of this step.
    pub fn next(&mut self, step: &str, limit: Duration) -> Result<Value> {
        let line = match self.lines.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => bail!(
                "{} does not get to {step:?} within {} s",
                self.name,
                limit.as_secs()
            ),
            Err(RecvTimeoutError::Disconnected) => {
                coldpress_harness::cleanup::park_if_stopping();
                let status = self.running.wait_for(Duration::from_secs(10))?;
                bail!("{} ended before {step:?}: {status}", self.name)
            }
        };
        let value: Value = serde_json::from_str(&line)
            .with_context(|| format!("{} printed {line:?}", self.name))?;
        match value["step"] == step {
            true => Ok(value),
            false => bail!("{} printed {line} instead of step {step:?}", self.name),
        }
    }

    /// Closes its input and waits for the end; what it, or `coldpress run`, wrote to standard error.
    pub fn finish(mut self) -> Result<String> {
        self.go = None;
        let status = self.running.wait_for(Duration::from_secs(60))?;
        let errors = self.errors.join().unwrap_or_default();
        match status.success() {
            true => Ok(errors),
            false => bail!("{} ended with {status}: {}", self.name, errors.trim()),
        }
    }

    /// The statistics of its pager.
    pub fn statistics(&self, coldpress: &Path) -> Result<Statistics> {
        Statistics::live(coldpress, self.pid)
    }
}

/// A number of a step.
pub fn number(step: &Value, name: &str) -> Result<f64> {
    step[name]
        .as_f64()
        .with_context(|| format!("the program told no {name}"))
}

/// The clock that the programs read.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the structure, and cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Private anonymous resident memory of a process at one moment of [`now_ns`].
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub at_ns: u64,
    /// Resident less shared, of `/proc/PID/statm`: what a budget limits.
    pub private_bytes: u64,
}

/// Samples of a process until it ends or is no longer of interest.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Watch {
    /// Starts to look every `interval`. Where that is allowed the thread runs before all ordinary ones,
    /// so that samples are on time on a busy machine too.
    pub fn start(pid: u32, interval: Duration) -> Result<Watch> {
        let path = format!("/proc/{pid}/statm");
        let statm = File::open(&path).with_context(|| format!("cannot open {path}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let interval = interval.as_nanos() as u64;
        let thread = std::thread::spawn(move || {
            let first = libc::sched_param { sched_priority: 1 };
            // SAFETY: of this thread only; a refusal leaves it as it is.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &first) };
            let mut samples = Vec::with_capacity(1 << 16);
            let begin = now_ns();
            while !stopped.load(Relaxed) {
                let at_ns = now_ns();
                match private_bytes(&statm) {
                    Some(private_bytes) if private_bytes > 0 => samples.push(Sample {
                        at_ns,
                        private_bytes,
                    }),
                    _ => break,
                }
                let past = (at_ns - begin) % interval;
                std::thread::sleep(Duration::from_nanos(interval - past));
            }
            samples
        });
        Ok(Watch { stop, thread })
    }

    /// Ends looking.
    pub fn finish(self) -> Vec<Sample> {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn private_bytes(statm: &File) -> Option<u64> {
    let mut text = [0; 128];
    let length = statm.read_at(&mut text, 0).ok()?;
    parse_statm(std::str::from_utf8(&text[..length]).ok()?)
}

fn parse_statm(text: &str) -> Option<u64> {
    let mut fields = text.split_whitespace().skip(1);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (resident, shared) = (next()?, next()?);
    Some(resident.saturating_sub(shared) * 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_resident_less_shared() {
        assert_eq!(parse_statm("900 30 10 1 0 5 0\n"), Some(20 * 4096));
        assert_eq!(parse_statm("900"), None);
    }

    #[test]
    fn the_managed_command_line_is_the_contract() {
        let how = How::managed(Path::new("/x/coldpress"), &["-q", "--budget", "1M"]);
        let command = how.command(Path::new("p"));
        let line: Vec<_> = command.get_args().map(|a| a.to_str().unwrap()).collect();
        assert_eq!(line.join(" "), "run -q --budget 1M -- p");
    }

    #[test]
    fn a_process_is_watched() {
        // A busy machine may take its time.
        let watched = [50, 500, 5_000, 50_000].map(Duration::from_millis);
        let mut watched = watched.into_iter().map(|time| {
            let watch = Watch::start(std::process::id(), Duration::from_millis(2)).unwrap();
            std::thread::sleep(time);
            watch.finish()
        });
        let samples = watched.find(|samples| samples.len() >= 3).unwrap();
        assert!(samples[0].private_bytes > 0);
        assert!(samples.is_sorted_by_key(|sample| sample.at_ns));
    }
}
