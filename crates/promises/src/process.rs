//! Running a command to its end, or to its time limit.
//!
//! Output goes to files, so that a grandchild holding a pipe cannot make a test hang. A command
//! over its limit is described (each thread's system call, wait channel and kernel stack: enough
//! to see who waits for whom) and then killed, it and its descendants, each by its id.

use crate::Workplace;
use coldpress_harness::process::{family, resident};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// How often a running process is looked at.
const SAMPLE: Duration = Duration::from_millis(5);

/// The lines of a program's output, as they come: read by a thread, so that one can wait for the next with a
/// limit. It ends with the output.
pub fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub command: String,
    /// Exit status.
    pub status: ExitStatus,
    /// Everything it wrote to standard output.
    pub stdout: String,
    /// Everything it wrote to standard error.
    pub stderr: String,
    /// From its start to its end.
    pub wall: Duration,
    /// Highest private anonymous resident memory seen of the command's own process, in bytes.
    pub peak_rss_anon_bytes: u64,
}

impl Outcome {
    /// The program's line of figures, or `None` where it skipped (said loudly).
    ///
    /// # Panics
    /// When the program found anything wrong, was killed, or did not say `OK`.
    #[track_caller]
    pub fn verdict(&self) -> Option<String> {
        let last = self.stdout.trim_end().lines().last().unwrap_or("");
        match self.status.code() {
            Some(0) if last.starts_with("OK") => Some(last.to_owned()),
            Some(77) => {
                crate::skip::skipped(last.trim_start_matches("SKIPPED: "));
                None
            }
            _ => panic!("{self}"),
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: ", self.command)?;
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "exit status {code}")?,
            (_, signal) => write!(f, "killed by signal {}", signal.unwrap_or(0))?,
        }
        write!(
            f,
            " after {:.2} s\n--- standard output\n{}\n--- standard error\n{}",
            self.wall.as_secs_f64(),
            self.stdout.trim_end(),
            self.stderr.trim_end()
        )
    }
}

/// Runs `command` in `place` until it ends.
///
/// # Panics
/// When it cannot be started, or is not done within `limit`.
#[track_caller]
pub fn run(place: &Workplace, mut command: Command, limit: Duration) -> Outcome {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Relaxed);
    let (out, err) = (
        place.path(&format!("{run}.out")),
        place.path(&format!("{run}.err")),
    );
    command
        .current_dir(place.dir())
        .stdin(Stdio::null())
        .stdout(appended(&out))
        .stderr(appended(&err));
    let line = format!("{command:?}");
    let started = Instant::now();
    let mut child = command
        .spawn()
        .unwrap_or_else(|e| panic!("cannot start {line}: {e}"));
    let pid = child.id();
    let mut peak = 0;
    let (status, stuck) = loop {
        if let Some(status) = child.try_wait().expect("wait for the own child") {
            break (status, None);
        }
        peak = peak.max(resident(pid).map_or(0, |resident| resident.anonymous));
        if started.elapsed() > limit {
            let all = family(pid);
            let report: String = all.iter().map(|&p| describe(p)).collect();
            for &member in &all {
                kill(member);
            }
            break (child.wait().expect("wait for the own child"), Some(report));
        }
        std::thread::sleep(SAMPLE);
    };
    let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let outcome = Outcome {
        command: line,
        status,
        stdout: text(out),
        stderr: text(err),
        wall: started.elapsed(),
        peak_rss_anon_bytes: peak,
    };
    if let Some(report) = stuck {
        panic!("not done within {} s\n{report}{outcome}", limit.as_secs());
    }
    outcome
}

/// A new file to which several writers may write through descriptions of their own.
fn appended(path: &Path) -> fs::File {
    let mut options = fs::File::options();
    options.create(true).append(true);
    options.open(path).expect("output file")
}

/// What each thread of a process is waiting for. Reads nothing that touches the memory of the
/// process (as `cmdline` does): that would wait too.
fn describe(pid: u32) -> String {
    let mut report = String::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let read = |name| {
            let text = fs::read_to_string(task.path().join(name)).unwrap_or_default();
            text.trim_end().to_owned()
        };
        let status = read("status");
        let state = status
            .lines()
            .find(|l| l.starts_with("State:"))
            .unwrap_or("");
        report += &format!(
            "process {pid} thread {} ({}) {state}, wchan {}, syscall {}\n{}\n",
            task.file_name().to_string_lossy(),
            read("comm"),
            read("wchan"),
            read("syscall"),
            read("stack")
        );
    }
    report
}

fn kill(pid: u32) {
    // SAFETY: kill takes two numbers; the process is the test's own child or its descendant.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stuck_command_is_described_and_killed() {
        let place = Workplace::new("stuck");
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; sleep 1000 & wait"]);
        let attempt = std::panic::AssertUnwindSafe(|| {
            run(&place, command, Duration::from_secs(2));
        });
        let panic = std::panic::catch_unwind(attempt).expect_err("it was to be over its limit");
        let message = panic.downcast_ref::<String>().expect("a message");
        for word in ["(sh)", "(sleep)", "wchan", "begun", "killed by signal 9"] {
            assert!(message.contains(word), "no `{word}` in: {message}");
        }
    }

    #[test]
    fn the_verdict_is_the_last_line() {
        let place = Workplace::new("verdict");
        let mut command = Command::new("echo");
        command.arg("noise\nOK 7 figures");
        let outcome = run(&place, command, Duration::from_secs(5));
        assert_eq!(outcome.verdict().as_deref(), Some("OK 7 figures"));
    }
}
