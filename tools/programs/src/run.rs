//! One run of a program from its start to its end, and who looks on.

use crate::place::Start;
use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::cleanup;
use coldpress_harness::managed::{Statistics, Wrapper};
use coldpress_harness::process::children;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program that can be run to its end again and again, with the same result each time.
pub trait Program {
    /// Runs it. `watch` is told the process whose memory counts, as soon as there is one.
    fn run(&self, start: &Start, watch: Watch) -> Result<Done>;
}

/// Who is told of the process whose memory counts.
pub type Watch<'a> = &'a mut dyn FnMut(u32) -> Result<()>;

/// What a run left.
#[derive(Debug, Default)]
pub struct Done {
    /// All that it printed and wrote, to be compared byte by byte.
    pub output: Vec<u8>,
    /// Time from the start to the end.
    pub seconds: f64,
    /// CPU time of all processes of the run, in seconds.
    pub cpu_seconds: f64,
    /// What the pager said at the end.
    pub statistics: Option<Statistics>,
    /// Throughput and latencies as the program or its client saw them, with their unit.
    pub figures: Vec<Figure>,
}

/// When a run began, by the clock and by CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    at: Instant,
    cpu_seconds: f64,
}

impl Begun {
    /// Now.
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            cpu_seconds: cpu_of_ended(),
        }
    }

    /// The run has ended now, and all its processes with it.
    pub fn done(
        self,
        output: Vec<u8>,
        statistics: Option<Statistics>,
        figures: Vec<Figure>,
    ) -> Done {
        Done {
            output,
            seconds: self.at.elapsed().as_secs_f64(),
            cpu_seconds: cpu_of_ended() - self.cpu_seconds,
            statistics,
            figures,
        }
    }
}

/// A figure that a run gave.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// Whether more is better.
    pub is_rate: bool,
}

/// The program was ended by SIGKILL, which nobody but the kernel's OOM killer sends here.
#[derive(Debug)]
pub struct Killed;

impl std::fmt::Display for Killed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("killed, most likely by the kernel's OOM killer")
    }
}

impl std::error::Error for Killed {}

/// A program that reads its input, writes its output and ends.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Executable.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// File that is its standard input.
    pub input: Option<PathBuf>,
    /// File that it writes, compared besides its standard output.
    pub result: Option<PathBuf>,
    /// Variables of its environment.
    pub environment: Vec<(&'static str, &'static str)>,
    /// A command in front of all others, such as `prlimit`.
    pub before: Vec<&'static str>,
}

impl Program for Batch {
    fn run(&self, start: &Start, watch: Watch) -> Result<Done> {
        let (output, errors) = (
            start.place.dir.join("output"),
            start.place.dir.join("errors"),
        );
        let mut command = start.command(&self.program)?;
        if let Some((first, rest)) = self.before.split_first() {
            command = in_front(first, rest, &command);
        }
        command
            .args(&self.arguments)
            .envs(self.environment.iter().copied())
            .current_dir(&start.place.dir)
            .stdin(match &self.input {
                Some(path) => Stdio::from(File::open(path)?),
                None => Stdio::null(),
            })
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?);
        if let Some(result) = &self.result {
            let _ = std::fs::remove_file(result);
        }
        let begun = Begun::now();
        let name = self.program.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let running = Running::start(&mut command, &name)?;
        let status = match pid_of_program(&running, start.is_managed())? {
            Some(pid) => {
                running.program(pid)?;
                watch(pid)?;
                running.wait_for(start.place.limit).map_err(|error| {
                    error.context(format!("HANGS or is too slow: {}", where_it_stands(pid)))
                })?
            }
            None => running.wait_for(Duration::from_secs(5))?,
        };
        succeeded(status, &errors)?;
        let mut bytes = std::fs::read(&output)?;
        if let Some(result) = &self.result {
            bytes.extend(std::fs::read(result).context("it wrote no result")?);
        }
        Ok(begun.done(bytes, statistics(&start.wrapper), Vec::new()))
    }
}

/// The same command, started by another one.
fn in_front(first: &str, rest: &[&str], command: &std::process::Command) -> std::process::Command {
    let mut outer = std::process::Command::new(first);
    outer
        .args(rest)
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            outer.env(name, value);
        }
    }
    outer
}

fn succeeded(status: ExitStatus, errors: &Path) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    killed_or(status)?;
    bail!("ended with {status}{}", tail(errors))
}

/// An error of its own kind where SIGKILL has ended a process.
pub fn killed_or(status: ExitStatus) -> Result<()> {
    cleanup::park_if_stopping();
    // `coldpress run` ends by the signal that ended its program.
    match status.signal() == Some(libc::SIGKILL) {
        true => Err(Killed.into()),
        false => Ok(()),
    }
}

/// The last lines of a file, for messages.
pub fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().rev().take(8).collect();
    // Lines that were drawn over again and again are long.
    let shown = |line: &str| {
        line.chars()
            .filter(|c| !c.is_control())
            .take(200)
            .collect::<String>()
    };
    lines
        .iter()
        .rev()
        .fold(String::new(), |all, line| all + "\n  " + &shown(line))
}

/// The final statistics, where there are any.
pub fn statistics(wrapper: &Wrapper) -> Option<Statistics> {
    let Wrapper::Managed { statistics, .. } = wrapper else {
        return None;
    };
    Statistics::read(statistics)
        .inspect_err(|error| eprintln!("warning: {error:#}"))
        .ok()
}

/// The process of the program itself: the one that we started, or, under coldpress, the child of
/// that as soon as it is the program. `None` if it ended before.
pub fn pid_of_program(running: &Running, managed: bool) -> Result<Option<u32>> {
    let started = running.id();
    if !managed {
        return Ok(Some(started));
    }
    let executable = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    while running.ended()?.is_none() {
        let child = children(started).into_iter().next();
        if let Some(pid) = child {
            let (outer, inner) = (executable(started), executable(pid));
            if inner.is_some() && inner != outer {
                return Ok(Some(pid));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(None)
}

/// CPU time of all processes of ours that have ended, in seconds.
fn cpu_of_ended() -> f64 {
    // SAFETY: `usage` is plain numbers that getrusage writes; it cannot fail for RUSAGE_CHILDREN.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// What each thread of a process that does not end waits for: for a report of a hang.
pub fn where_it_stands(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let lines = tasks.flatten().flatten().map(|task| {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        format!(
            "\n  {} {}: {} {}",
            task.file_name().to_string_lossy(),
            read("comm").trim(),
            read("wchan").trim(),
            read("syscall").trim()
        )
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_and_times_of_processes_are_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        assert!(where_it_stands(child.id()).contains(&format!(" {}", child.id())));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_command_goes_in_front_of_another_with_its_environment() {
        let mut inner = std::process::Command::new("b");
        inner.args(["c"]).env("NAME", "value");
        let outer = in_front("a", &["-x"], &inner);
        let words: Vec<_> = outer.get_args().collect();
        assert_eq!(outer.get_program(), "a");
        assert_eq!(words, ["-x", "b", "c"]);
        assert_eq!(outer.get_envs().count(), 1);
    }
}
