//! `cargo xtask programs --default`: what `coldpress run` without a budget saves and costs.
//!
//! Natively and under it by turns, so that a machine that is busy for a while is so for both. Outputs must be the same. Time
//! and processor time are medians of the rounds, each ratio is that of a round's two runs; memory is sampled from
//! outside, and the mean is over the whole run. Redis and PostgreSQL are servers: their processor time counts
//! their clients, too.

use crate::place::{Place, Start};
use crate::run::{Done, Program};
use crate::subjects::Subject;
use crate::{INTERVAL, sampled};
use anyhow::{Context, Result};
use coldpress_harness::figures;
use coldpress_harness::text::{Table, mib, thousands};
use serde_json::{Value, json};
use std::path::Path;

/// A run natively, and one under the default.
struct Pair {
    native: Run,
    managed: Run,
}

struct Run {
    done: Done,
    mean: u64,
    peak: u64,
}

/// Runs the programs; 1 if an output differs.
pub fn run(
    subjects: &[&'static Subject],
    place: &Place,
    rounds: u64,
    target: Option<&Path>,
) -> Result<u8> {
    let mut table = Table::new(&[
        "program",
        "native",
        "default",
        "time",
        "CPU",
        "mean",
        "held",
        "of it",
        "saved",
        "CPU of pager",
        "evictions",
        "faults",
        "waited",
        "output",
    ]);
    let mut objects = Vec::new();
    let mut failed = false;
    for subject in subjects.iter().filter(|subject| !subject.is_chaos) {
        let program = (subject.prepare)(place)?;
        let mut pairs = Vec::new();
        for round in 1..=rounds {
            eprintln!("{}: round {round} of {rounds}", subject.name);
            let one = |start| run_once(program.as_ref(), &start).context(subject.name);
            pairs.push(Pair {
                native: one(Start::native(place))?,
                managed: one(Start::by_default(place))?,
            });
        }
        let same = pairs
            .iter()
            .all(|p| p.native.done.output == p.managed.done.output);
        failed |= !same;
        let cells = row(subject.name, &pairs, same);
        eprintln!("{}", cells.join(" | "));
        table.row(&cells);
        objects.push(object(subject.name, &pairs, same));
    }
    println!("\n{table}");
    println!(
        "By turns, {rounds} round(s), medians. time, CPU: default by native. mean, held: private anonymous memory of the process, the\n\
         pager's included, every {} ms, mean over the run; of it: held by mean. saved: what the pager says it saved on average.\n\
         waited: time that threads waited for faults, of the run.",
        INTERVAL.as_millis()
    );
    if let Some(path) = target {
        let text = serde_json::to_string_pretty(&objects)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(u8::from(failed))
}

fn run_once(program: &dyn Program, start: &Start) -> Result<Run> {
    let (done, samples) = sampled(program, start)?;
    Ok(Run {
        mean: samples.mean(|s| s.resident.anonymous),
        peak: samples.peak(),
        done,
    })
}

fn median(pairs: &[Pair], value: impl Fn(&Pair) -> f64) -> f64 {
    figures::median(&pairs.iter().map(value).collect::<Vec<_>>())
}

fn counted(pair: &Pair, name: &str) -> f64 {
    let statistics = pair.managed.done.statistics.as_ref();
    statistics.and_then(|s| s.get(name)).unwrap_or(0) as f64
}

/// The share of what would have been held that was not, on average, as the pager tells it.
fn saved(pair: &Pair) -> f64 {
    let content = counted(pair, "average_content_bytes").max(1.0);
    1.0 - counted(pair, "average_total_bytes") / content
}

fn waited(pair: &Pair) -> f64 {
    counted(pair, "fault_wait_ns") / 1e9 / pair.managed.done.seconds
}

fn time_ratio(pair: &Pair) -> f64 {
    pair.managed.done.seconds / pair.native.done.seconds
}

fn cpu_ratio(pair: &Pair) -> f64 {
    pair.managed.done.cpu_seconds / pair.native.done.cpu_seconds
}

fn held_share(pair: &Pair) -> f64 {
    pair.managed.mean as f64 / pair.native.mean.max(1) as f64
}

fn row(name: &str, pairs: &[Pair], same: bool) -> Vec<String> {
    let of = |value: &dyn Fn(&Pair) -> f64| median(pairs, value);
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    vec![
        name.to_owned(),
        format!("{:.1} s", of(&|p| p.native.done.seconds)),
        format!("{:.1} s", of(&|p| p.managed.done.seconds)),
        format!("{:.3}", of(&time_ratio)),
        format!("{:.3}", of(&cpu_ratio)),
        mib(of(&|p| p.native.mean as f64) as u64),
        mib(of(&|p| p.managed.mean as f64) as u64),
        percent(of(&held_share)),
        percent(of(&saved)),
        format!("{:.2} s", of(&|p| counted(p, "pager_cpu_ns") / 1e9)),
        thousands(of(&|p| counted(p, "evictions")) as u64),
        thousands(of(&|p| counted(p, "faults")) as u64),
        percent(of(&waited)),
        if same { "identical" } else { "DIFFERS" }.to_owned(),
    ]
}

fn object(name: &str, pairs: &[Pair], same: bool) -> Value {
    let rounds: Vec<Value> = pairs
        .iter()
        .map(|pair| {
            json!({
                "native_seconds": pair.native.done.seconds, "seconds": pair.managed.done.seconds,
                "native_cpu_seconds": pair.native.done.cpu_seconds, "cpu_seconds": pair.managed.done.cpu_seconds,
                "native_mean_bytes": pair.native.mean, "mean_bytes": pair.managed.mean,
                "native_peak_bytes": pair.native.peak, "peak_bytes": pair.managed.peak,
                "saved_share": saved(pair), "waited_share": waited(pair),
                "statistics": pair.managed.done.statistics.as_ref().map(|s| s.0.clone()),
            })
        })
        .collect();
    json!({ "program": name, "identical": same, "rounds": rounds })
}
