//! `cargo xtask demo`: a service that nobody uses for a while.
//!
//! redis is filled with JSON values and left alone: as it is, and with `coldpress run --` in front and no option. What it
//! holds is sampled; then the first request after the rest is timed, and every value is read back and compared. The demo
//! fails if one differs, or if less than a third of the memory was saved.

use crate::records;
use crate::resp::Reply;
use crate::server::{Phase, Plan, Server};
use crate::{Options, sampler};
use anyhow::{Result, bail};
use coldpress_harness::managed::{NO_BUDGET, Wrapper};
use coldpress_harness::process::{Samples, Status};
use coldpress_harness::progress::Progress;
use coldpress_harness::text::{Table, bar, mib, sparkline, thousands};
use coldpress_harness::{output, workspace};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Values that redis holds, in MiB, unless something else is asked for.
const MEBIBYTES: u64 = 256;
/// It rests until memory has hardly changed for so long.
const STEADY: Duration = Duration::from_secs(4);
/// And for so long at most.
const LONGEST_REST: Duration = Duration::from_secs(40);
/// Cells of the longest bar and of the curve: 80 columns with their names.
const WIDTH: usize = 44;

/// One run of redis: filled, left alone, used again.
struct Run {
    name: &'static str,
    filled_bytes: u64,
    rested_bytes: u64,
    rest: Duration,
    first_get: Duration,
    read: Phase,
    samples: Samples,
}

impl Run {
    fn of(options: &Options, name: &'static str, wrapper: &Wrapper, dir: &Path) -> Result<Run> {
        let mut server = Server::start(wrapper, dir)?;
        let sampler = sampler(&server)?;
        let bytes = options.mebibytes.unwrap_or(MEBIBYTES) << 20;
        let fill = server.fill_to(options.seed, bytes, &format!("{name}: filling redis"))?;
        let filled_bytes = Status::open(server.pid)?.resident()?.anonymous;
        let rest = rest(name, &server)?;
        let rested_bytes = Status::open(server.pid)?.resident()?.anonymous;
        let first_get = first_get(options.seed, &mut server)?;
        let plan = Plan {
            seed: options.seed,
            count: fill.records,
        };
        let read = server.read_back(plan, &format!("{name}: reading all of it back"))?;
        let samples = sampler.finish();
        server.end()?;
        Ok(Run {
            name,
            filled_bytes,
            rested_bytes,
            rest,
            first_get,
            read,
            samples,
        })
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "rss_anon_filled_bytes": self.filled_bytes,
            "rss_anon_rested_bytes": self.rested_bytes,
            "rest_seconds": self.rest.as_secs_f64(),
            "first_get_seconds": self.first_get.as_secs_f64(),
            "read_back_seconds": self.read.seconds,
            "values_compared": self.read.records,
            "mismatches": self.read.mismatches,
        })
    }
}

/// Leaves it alone until its memory does not change any more. For how long that was.
fn rest(name: &str, server: &Server) -> Result<Duration> {
    let status = Status::open(server.pid)?;
    let mut progress = Progress::begin(format!("{name}: nobody uses it"));
    let begun = Instant::now();
    let (mut steady_at, mut steady_since) = (status.resident()?.anonymous, Instant::now());
    while steady_since.elapsed() < STEADY && begun.elapsed() < LONGEST_REST {
        sleep(Duration::from_millis(100));
        let bytes = status.resident()?.anonymous;
        if bytes.abs_diff(steady_at) > steady_at / 50 {
            (steady_at, steady_since) = (bytes, Instant::now());
        }
        progress.update(|| format!("holds {}", mib(bytes)));
    }
    let rest = begun.elapsed();
    let outcome = format!("holds {} after {:.0} s", mib(steady_at), rest.as_secs_f64());
    progress.finish(&outcome);
    Ok(rest)
}

/// How long the first request takes.
fn first_get(seed: u64, server: &mut Server) -> Result<Duration> {
    let (mut key, mut expected) = (Vec::new(), Vec::new());
    records::key(0, &mut key);
    records::value(seed, 0, &mut expected);
    let begun = Instant::now();
    let client = server.client();
    client.request(&[b"GET", &key]);
    client.send()?;
    let reply = client.reply()?;
    let took = begun.elapsed();
    if reply != Reply::Bulk || client.bulk != expected {
        bail!("the first GET after the rest brought something else than was stored");
    }
    Ok(took)
}

/// Runs it; 1 if it failed.
pub(crate) fn run(options: &Options) -> Result<u8> {
    let binary = workspace::build_release()?;
    let (dir, _guard) = workspace::temporary_dir("demo")?;
    let native = Run::of(options, "native", &Wrapper::Native, &dir)?;
    let managed = Wrapper::Managed {
        binary,
        budget_bytes: NO_BUDGET,
        statistics: PathBuf::from("/dev/null"),
    };
    let managed = Run::of(options, "coldpress", &managed, &dir)?;
    println!("{}", text(&native, &managed));
    let complaints = complaints(&native, &managed);
    if let Some(path) = &options.json {
        let all = json!({
            "native": native.json(), "managed": managed.json(), "complaints": complaints,
        });
        output::json(path, &all)?;
    }
    for complaint in &complaints {
        println!("FAILED: {complaint}");
    }
    if complaints.is_empty() {
        println!(
            "OK: {} values read back equal, byte by byte. With a gigabyte and a budget: cargo xtask demo --full",
            thousands(managed.read.records)
        );
    }
    Ok(u8::from(!complaints.is_empty()))
}

fn complaints(native: &Run, managed: &Run) -> Vec<String> {
    let mut complaints = Vec::new();
    for run in [native, managed] {
        if run.read.mismatches > 0 {
            let (name, differ) = (run.name, run.read.mismatches);
            complaints.push(format!(
                "{differ} values of the {name} run differ from what was written"
            ));
        }
    }
    if managed.rested_bytes > native.rested_bytes / 3 * 2 {
        complaints.push(format!(
            "idle redis holds {} instead of {}: less than a third was saved",
            mib(managed.rested_bytes),
            mib(native.rested_bytes)
        ));
    }
    complaints
}

fn text(native: &Run, managed: &Run) -> String {
    let mut table = Table::new(&["redis with JSON", "native", "coldpress run --"]);
    let mut row = |name: &str, show: &dyn Fn(&Run) -> String| {
        table.row(&[name, &show(native), &show(managed)]);
    };
    row("RssAnon, filled", &|run| mib(run.filled_bytes));
    row("RssAnon, idle", &|run| mib(run.rested_bytes));
    row("first GET after it", &|run| {
        format!("{:.2} ms", run.first_get.as_secs_f64() * 1e3)
    });
    row("reading all back", &|run| {
        format!("{:.1} s", run.read.seconds)
    });
    row("values compared", &|run| thousands(run.read.records));
    row("values that differ", &|run| thousands(run.read.mismatches));
    let full = native.samples.peak().max(managed.samples.peak());
    let mut out = format!("\n{table}");
    for run in [native, managed] {
        let cells = bar(run.rested_bytes as f64 / full as f64, WIDTH);
        let name = format!("{}, idle", run.name);
        out += &format!("\n{name:<16} {cells} {}", mib(run.rested_bytes));
    }
    out += &format!("\n\nRssAnon over time (full height: {}):", mib(full));
    for run in [native, managed] {
        let values: Vec<_> = run.samples.0.iter().map(|s| s.resident.anonymous).collect();
        let seconds = run.samples.0.last().map_or(0.0, |s| s.at.as_secs_f64());
        let curve = sparkline(&values, full, WIDTH);
        out += &format!("\n{:<16} {curve} {seconds:.1} s", run.name);
    }
    out + "\n"
}
