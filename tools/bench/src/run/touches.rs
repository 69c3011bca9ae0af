//! The toucher of `bench first` as a workload: what a fault costs, as a program sees it.
//!
//! It touches pages uniformly at random and times each touch by the time stamp counter, so the same
//! method serves for coldpress and for the kernel. Native touches have no slow ones.

use super::gets::figure;
use anyhow::{Context, Result, bail};
use coldpress_programs::place::{Place, Start};
use coldpress_programs::run::{self, Begun, Done, Program, Watch};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Stdio;

/// Size of the mapping.
const MEBIBYTES: u64 = 256;
/// Time of touching.
const SECONDS: f64 = 8.0;
/// Touches that take longer count as faults.
const THRESHOLD_NS: u64 = 1000;

/// The toucher.
pub struct Touches {
    path: PathBuf,
}

impl Touches {
    /// Compiles it.
    pub fn new(place: &Place) -> Result<Touches> {
        let path = crate::stepwise::compile("bench_pages", &place.dir)?;
        Ok(Touches { path })
    }
}

impl Program for Touches {
    fn run(&self, start: &Start, watch: Watch) -> Result<Done> {
        let mut command = start.command(&self.path)?;
        command
            .arg(start.place.scaled(MEBIBYTES).to_string())
            .args([SECONDS.to_string(), "1".into(), THRESHOLD_NS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let begun = Begun::now();
        let running = coldpress_harness::child::Running::start(&mut command, "bench_pages")?;
        let (mut go, output) = running.pipes().expect("both were piped");
        let mut lines = BufReader::new(output).lines();
        let mut next = |step: &str| -> Result<serde_json::Value> {
            let Some(line) = lines.next().transpose()? else {
                let status = running.wait_for(std::time::Duration::from_secs(5))?;
                run::killed_or(status)?;
                bail!("bench_pages ended before {step:?}: {status}");
            };
            let value: serde_json::Value = serde_json::from_str(&line)?;
            match value["step"] == step {
                true => Ok(value),
                false => bail!("bench_pages printed {line} instead of {step:?}"),
            }
        };
        let pid = next("hello")?["pid"].as_u64().context("no pid")? as u32;
        running.program(pid)?;
        watch(pid)?;
        // It may be gone, which the next line tells.
        let _ = go.write_all(b"\n");
        next("filled")?;
        let _ = go.write_all(b"\n");
        let touched = next("touched")?;
        let _ = go.write_all(b"\n");
        let verified = next("verified")?;
        let _ = go.write_all(b"\n");
        run::killed_or(running.wait_for(std::time::Duration::from_secs(30))?)?;
        let number = |name: &str| touched[name].as_f64().with_context(|| format!("no {name}"));
        if number("wrong")? > 0.0 || verified["wrong"].as_f64() != Some(0.0) {
            bail!("WRONG CONTENT: {touched} {verified}");
        }
        let mut figures = vec![figure(
            "touches/s",
            number("touches")? / number("seconds")?,
            true,
        )];
        if start.group.is_some() || start.is_managed() {
            figures.push(figure("fault p50 µs", number("slow_p50_ns")? / 1e3, false));
            figures.push(figure("fault p99 µs", number("slow_p99_ns")? / 1e3, false));
            figures.push(figure(
                "fault mean µs",
                number("slow_mean_ns")? / 1e3,
                false,
            ));
        }
        Ok(begun.done(Vec::new(), run::statistics(&start.wrapper), figures))
    }
}
