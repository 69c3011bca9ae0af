//! A run of fio: its options one by one, and what it tells as JSON.
//!
//! fio is started in a group that ends with us. What it says besides goes to standard error where it fails.

use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::install::{Package, find_program, program};
use serde_json::Value;
use std::io::Read;
use std::process::{Command, Stdio};

/// The package.
pub const FIO: Package = program("fio", "fio");

/// What fio tells of one direction of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Direction {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// How long a request took, on the mean, in nanoseconds.
    pub mean_ns: f64,
    /// What 99 of 100 requests took at most, in nanoseconds.
    pub p99_ns: f64,
}

/// What fio tells of one job, or of a group of equal ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// 0, or the number of the error that ended it.
    pub error: i64,
    /// Reads, those that verify among them.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
}

/// A run that ended.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its jobs.
    pub jobs: Vec<Job>,
    /// Whether fio calls it a success.
    pub success: bool,
    /// What it said besides.
    pub said: String,
}

/// A run to be: options of all jobs, then jobs with options of their own.
#[derive(Clone, Debug, Default)]
pub struct Fio {
    arguments: Vec<String>,
}

/// A run under way.
pub struct Started {
    running: Running,
    output: std::thread::JoinHandle<String>,
    errors: std::thread::JoinHandle<String>,
}

impl Fio {
    /// Nothing asked yet.
    pub fn new() -> Fio {
        Fio::default()
    }

    /// Adds options: `rw=randread`.
    #[must_use]
    pub fn with(mut self, options: &[&str]) -> Fio {
        let options = options.iter().map(|option| format!("--{option}"));
        self.arguments.extend(options);
        self
    }

    /// Adds an option with a value.
    #[must_use]
    pub fn set(mut self, option: &str, value: impl std::fmt::Display) -> Fio {
        self.arguments.push(format!("--{option}={value}"));
        self
    }

    /// Begins a job: options from here on are its own.
    #[must_use]
    pub fn job(self, name: &str) -> Fio {
        self.set("name", name)
    }

    /// Starts it.
    pub fn start(&self) -> Result<Started> {
        let fio = find_program("fio").context("no fio here")?;
        let mut command = Command::new(fio);
        command
            .args(["--output-format=json", "--eta=never"])
            .arg("--verify_state_save=0")
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let running = Running::start_group(&mut command, "fio")?;
        let (output, errors) = running.outputs().context("fio has no output")?;
        Ok(Started {
            running,
            output: read_all(output),
            errors: read_all(errors),
        })
    }

    /// Runs it to its end.
    pub fn finish(&self) -> Result<Told> {
        self.start()?.finish()
    }

    /// Runs it to its end, which must be a good one.
    pub fn succeed(&self) -> Result<Vec<Job>> {
        let told = self.finish()?;
        if !told.success || told.jobs.iter().any(|job| job.error != 0) {
            bail!("fio {}\n{}", self.arguments.join(" "), told.said.trim());
        }
        Ok(told.jobs)
    }
}

impl Started {
    /// Waits for its end.
    pub fn finish(self) -> Result<Told> {
        let status = self.running.wait()?;
        let output = self.output.join().unwrap_or_default();
        let errors = self.errors.join().unwrap_or_default();
        let (before, json) = output.split_at(output.find("{\n").unwrap_or(output.len()));
        let jobs = match serde_json::Deserializer::from_str(json)
            .into_iter::<Value>()
            .next()
        {
            Some(Ok(told)) => told["jobs"]
                .as_array()
                .into_iter()
                .flatten()
                .map(job)
                .collect(),
            _ => Vec::new(),
        };
        Ok(Told {
            success: status.success(),
            said: format!("{errors}{before}"),
            jobs,
        })
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> Result<bool> {
        Ok(self.running.ended()?.is_some())
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is all there is.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn job(told: &Value) -> Job {
    Job {
        name: told["jobname"].as_str().unwrap_or("?").to_owned(),
        error: told["error"].as_i64().unwrap_or(0),
        read: direction(&told["read"]),
        write: direction(&told["write"]),
    }
}

fn direction(told: &Value) -> Direction {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let latency = &told["clat_ns"];
    Direction {
        requests: told["total_ios"].as_u64().unwrap_or(0),
        bytes: told["io_bytes"].as_u64().unwrap_or(0),
        iops: number(&told["iops"]),
        bytes_per_second: number(&told["bw_bytes"]),
        mean_ns: number(&latency["mean"]),
        p99_ns: number(&latency["percentile"]["99.000000"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_tells_is_read() {
        let told = serde_json::json!({
            "jobname": "a", "error": 84,
            "read": { "io_bytes": 8192, "bw_bytes": 4096, "iops": 1.5, "total_ios": 2,
                "clat_ns": { "mean": 1000.5, "percentile": { "99.000000": 2000 } } },
        });
        let job = job(&told);
        assert_eq!((job.name.as_str(), job.error), ("a", 84));
        assert_eq!((job.read.requests, job.read.bytes), (2, 8192));
        assert_eq!((job.read.iops, job.read.p99_ns), (1.5, 2000.0));
        assert_eq!(job.write, Direction::default());
    }

    #[test]
    fn options_of_a_job_come_behind_its_name() {
        let fio = Fio::new().with(&["direct=1"]).job("a").set("bs", 4096);
        assert_eq!(fio.arguments, ["--direct=1", "--name=a", "--bs=4096"]);
    }
}
