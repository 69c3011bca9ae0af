//! Running a target: one process for each job. They share the corpus, in which libFuzzer looks for what others have
//! found.
//!
//! Each is started by us and not by `cargo fuzz run`, which would leave it running where we are ended; the options are
//! the same.

use super::build::How;
use anyhow::Result;
use coldpress_harness::child::{self, Running};
use coldpress_harness::workspace;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// The workspace of the targets.
pub(super) const MANIFEST: &str = "fuzz/Cargo.toml";

/// What one target did.
pub(super) struct Report {
    pub(super) target: String,
    pub(super) cpu_seconds: f64,
    /// By the clock.
    pub(super) seconds: f64,
    /// None where a job ended before it could say.
    pub(super) executions: Option<u64>,
    pub(super) outcome: Outcome,
}

impl Report {
    /// Executions a second.
    pub(super) fn a_second(&self) -> Option<u64> {
        let rate = self.executions? as f64 / self.seconds;
        rate.is_finite().then_some(rate as u64)
    }
}

/// How one target ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Clean,
    /// The file that holds the input.
    Found(String),
    /// Ended otherwise than by a finding, which is no better.
    Failed(String),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Clean => f.write_str("nothing found"),
            Outcome::Found(file) => write!(f, "FOUND: {file}"),
            Outcome::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}

/// Builds one target and runs it.
pub(super) fn fuzz(target: &str, how: &How) -> Result<Report> {
    let mut report = Report {
        target: target.to_owned(),
        cpu_seconds: 0.0,
        seconds: 0.0,
        executions: None,
        outcome: Outcome::Failed("it does not build".into()),
    };
    let mut build = how.build(target);
    if !Running::start_group(&mut build, "the build")?
        .wait()?
        .success()
    {
        return Ok(report);
    }
    let (before, began) = (child::user_time_of_ended(), Instant::now());
    let mut jobs = Vec::new();
    for number in 0..how.jobs {
        jobs.push(Job::start(target, how, number)?);
    }
    wait(&mut jobs)?;
    let ended: Vec<_> = jobs.into_iter().map(Job::end).collect();
    report.seconds = began.elapsed().as_secs_f64();
    report.cpu_seconds = (child::user_time_of_ended() - before).as_secs_f64();
    report.executions = ended.iter().map(|(_, said)| said.executions).sum();
    report.outcome = of_all(ended);
    Ok(report)
}

/// One process of a target.
struct Job {
    /// None once it was ended.
    running: Option<Running>,
    status: Option<ExitStatus>,
    follower: JoinHandle<Said>,
}

impl Job {
    fn start(target: &str, how: &How, number: u32) -> Result<Self> {
        let mut command = program_of(target, how, number)?;
        let running = Running::start(&mut command, target)?;
        let errors = running.errors().expect("it is a pipe");
        let prefix = match how.jobs {
            1 => String::new(),
            _ => format!("{}: ", number + 1),
        };
        Ok(Self {
            running: Some(running),
            status: None,
            follower: thread::spawn(move || follow(errors, &prefix)),
        })
    }

    /// Ends it, if it is still running. The status is none if it was.
    fn end(self) -> (Option<ExitStatus>, Said) {
        drop(self.running);
        (self.status, self.follower.join().unwrap_or_default())
    }
}

/// Waits until all have ended, or one by a finding.
fn wait(jobs: &mut [Job]) -> Result<()> {
    loop {
        for job in jobs.iter_mut() {
            if let (Some(running), None) = (&job.running, job.status) {
                job.status = running.ended()?;
            }
        }
        let failed = |job: &Job| job.status.is_some_and(|status| !status.success());
        if jobs.iter().any(failed) || jobs.iter().all(|job| job.status.is_some()) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The built target with all its arguments, as cargo-fuzz would start it.
fn program_of(target: &str, how: &How, number: u32) -> Result<Command> {
    let program: PathBuf = workspace::target_dir_of(MANIFEST)?
        .join(TRIPLE)
        .join("release")
        .join(target);
    let artifacts = Path::new("fuzz/artifacts").join(target);
    std::fs::create_dir_all(workspace::root().join(&artifacts))?;
    let given = std::env::var("ASAN_OPTIONS").unwrap_or_default();
    let sanitizer = format!("{given}:detect_odr_violation=0");
    let mut command = Command::new(program);
    command
        .current_dir(workspace::root())
        .env("ASAN_OPTIONS", sanitizer.trim_start_matches(':'))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(how.arguments(target, number))
        .arg(Path::new("fuzz/corpus").join(target))
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    Ok(command)
}

/// What libFuzzer said that we need.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// As it said last: at its end, or with its last line.
    executions: Option<u64>,
    file: Option<String>,
}

impl Said {
    fn line(&mut self, line: &str) {
        let number = match line.strip_prefix('#') {
            Some(line) => line.split_whitespace().next(),
            None => line.strip_prefix("stat::number_of_executed_units:"),
        };
        if let Some(number) = number.and_then(|number| number.trim().parse().ok()) {
            self.executions = Some(number);
        } else if let Some((_, file)) = line.split_once("Test unit written to ") {
            self.file = Some(file.trim().to_owned());
        }
    }
}

/// Copies what a job says, each line after the prefix, and keeps what we need of it.
fn follow(from: impl Read, prefix: &str) -> Said {
    let mut from = BufReader::new(from);
    let mut said = Said::default();
    let mut line = prefix.as_bytes().to_vec();
    while matches!(from.read_until(b'\n', &mut line), Ok(length) if length > 0) {
        // Nothing to be done where our own output is closed.
        let _ = std::io::stderr().write_all(&line);
        said.line(&String::from_utf8_lossy(&line[prefix.len()..]));
        line.truncate(prefix.len());
    }
    said
}

/// The first outcome that is not clean, if there is one. A job without a status was ended because of another.
fn of_all(ended: Vec<(Option<ExitStatus>, Said)>) -> Outcome {
    let mut outcomes = ended
        .into_iter()
        .map(|(status, said)| outcome(status, said.file));
    outcomes
        .find(|outcome| *outcome != Outcome::Clean)
        .unwrap_or(Outcome::Clean)
}

/// A job that wrote an input has found something, however it ended then.
fn outcome(status: Option<ExitStatus>, file: Option<String>) -> Outcome {
    match (status, file) {
        (_, Some(file)) => Outcome::Found(file),
        (Some(status), None) if !status.success() => Outcome::Failed(status.to_string()),
        (_, None) => Outcome::Clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn executions_and_files_are_read_from_what_it_says() {
        let mut said = Said::default();
        said.line("#2\tINITED cov: 3");
        assert_eq!(said.executions, Some(2));
        for line in [
            "artifact_prefix='a/'; Test unit written to a/crash-0123\n",
            "stat::number_of_executed_units: 4711\n",
            "###### Recommended dictionary. ######",
            "    #3 0x55 in main",
        ] {
            said.line(line);
        }
        let expected = Said {
            executions: Some(4711),
            file: Some("a/crash-0123".into()),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn what_a_job_says_is_read_without_its_prefix() {
        let said = follow(&b"#1\tNEW\nstat::number_of_executed_units: 5"[..], "2: ");
        assert_eq!(said.executions, Some(5));
    }

    #[test]
    fn only_a_clean_end_without_a_file_is_clean() {
        let (good, killed) = (Some(ExitStatus::from_raw(0)), Some(ExitStatus::from_raw(9)));
        assert_eq!(outcome(good, None), Outcome::Clean);
        assert_eq!(outcome(good, Some("f".into())), Outcome::Found("f".into()));
        assert_eq!(
            outcome(killed, Some("f".into())),
            Outcome::Found("f".into())
        );
        assert!(matches!(outcome(killed, None), Outcome::Failed(_)));
    }

    #[test]
    fn a_finding_of_one_job_is_the_target_s() {
        let found = Said {
            executions: Some(3),
            file: Some("f".into()),
        };
        let failed = Some(ExitStatus::from_raw(256));
        let ended = vec![(None, Said::default()), (failed, found)];
        assert_eq!(of_all(ended), Outcome::Found("f".into()));
    }
}
