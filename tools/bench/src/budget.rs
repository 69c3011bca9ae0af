//! `cargo xtask bench budget`: is the budget kept against a program that takes memory as fast as it can?
//!
//! For each kind of contents, and for one mapping as for many: one native run for its rate, then a run
//! under a budget. From outside, private anonymous resident memory is sampled every 10 ms, from
//! before the program takes anything until it ends. Overshoot is what a sample is above the budget, at
//! its 99th percentile over the filling alone, over the reading back alone, and over all: the worst
//! of them counts.
//!
//! Last, a budget far below what the pages need that do not compress: the program must get to its end
//! all the same, and the summary of `coldpress run` must say that the budget could not be kept.

use crate::machine::Machine;
use crate::stepwise::{self, How, Sample, Stepwise, Watch, number};
use anyhow::{Context, Result};
use coldpress_harness::figures::{median, quantile};
use coldpress_harness::managed::Statistics;
use coldpress_harness::output;
use coldpress_harness::text::{Table, mib};
use coldpress_harness::{install, workspace};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Memory that the program takes, in MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(128..=65536))]
    mebibytes: u64,
    /// How often each is run under a budget; samples of all runs count together
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Longest time of a run, in seconds
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(10);

/// What the overshoot must stay below: the larger of these two.
const ALLOWED_BYTES: u64 = 64 << 20;
const ALLOWED_SHARE: f64 = 0.05;

/// A budget that the contents can be held in, in percent of them. (What does not compress needs its own
/// size, and the pager a little.)
const CASES: [(&str, u64); 3] = [("text", 50), ("half", 85), ("noise", 105)];

/// The budget that noise cannot be held in, in percent of it.
const UNREACHABLE_PERCENT: u64 = 50;

/// Words of the summary by which it says that a budget was not kept.
const CONFESSION: &str = "BUDGET MISSED";

/// One run.
struct Run {
    fill_seconds: f64,
    read_seconds: f64,
    samples: Vec<Sample>,
    /// Begin and end of filling, and of reading back.
    phases: [(u64, u64); 2],
    wrong: u64,
    summary: String,
    statistics: Option<Statistics>,
}

type Bench<'a> = stepwise::Bench<'a, Options>;

impl Bench<'_> {
    fn run(&self, contents: &str, how_taken: &str, budget_mib: Option<u64>) -> Result<Run> {
        let stats = self.dir.join("statistics.json");
        let how = match budget_mib {
            None => How::native(),
            Some(budget) => {
                let budget = format!("{budget}M");
                let stats = stats.to_string_lossy();
                How::managed(&self.coldpress, &["--budget", &budget, "--stats", &stats])
            }
        };
        let size = self.options.mebibytes.to_string();
        let arguments = [size, contents.to_owned(), how_taken.to_owned()];
        let limit = Duration::from_secs(self.options.limit);
        let mut program = Stepwise::start(&how, &self.program, &arguments)?;
        let watch = Watch::start(program.pid, INTERVAL)?;
        program.go()?;
        let filled = program.next("filled", limit)?;
        let read = program.next("read", limit)?;
        let summary = program.finish()?;
        let phase = |step: &Value| -> Result<(u64, u64)> {
            Ok((
                number(step, "begin_ns")? as u64,
                number(step, "end_ns")? as u64,
            ))
        };
        let phases = [phase(&filled)?, phase(&read)?];
        let seconds = |(begin, end): (u64, u64)| (end - begin) as f64 / 1e9;
        Ok(Run {
            fill_seconds: seconds(phases[0]),
            read_seconds: seconds(phases[1]),
            samples: watch.finish(),
            phases,
            wrong: number(&read, "wrong")? as u64,
            summary: summary.trim().to_owned(),
            statistics: budget_mib.map(|_| Statistics::read(&stats)).transpose()?,
        })
    }
}

/// What samples of some runs are above the budget.
struct Overshoot {
    samples: usize,
    above_share: f64,
    p99: u64,
    max: u64,
}

impl Overshoot {
    fn of<'a>(samples: impl Iterator<Item = &'a Sample>, budget_bytes: u64) -> Overshoot {
        let over: Vec<u64> = samples
            .map(|sample| sample.private_bytes.saturating_sub(budget_bytes))
            .collect();
        let above = over.iter().filter(|&&over| over > 0).count();
        Overshoot {
            samples: over.len(),
            above_share: above as f64 / over.len().max(1) as f64,
            p99: quantile(&over, 0.99),
            max: quantile(&over, 1.0),
        }
    }

    fn json(&self) -> Value {
        json!({
            "samples": self.samples, "share_above": self.above_share,
            "p99_bytes": self.p99, "max_bytes": self.max,
        })
    }
}

/// All runs of a case: over all samples, over those of filling, over those of reading back.
fn overshoots(runs: &[Run], budget_bytes: u64) -> [Overshoot; 3] {
    let within = |phase: Option<usize>| {
        let samples = runs.iter().flat_map(move |run| {
            let (begin, end) = phase.map_or((0, u64::MAX), |phase| run.phases[phase]);
            let inside = move |sample: &&Sample| (begin..end).contains(&sample.at_ns);
            run.samples.iter().filter(inside)
        });
        Overshoot::of(samples, budget_bytes)
    };
    [within(None), within(Some(0)), within(Some(1))]
}

fn allowed(budget_bytes: u64) -> u64 {
    ALLOWED_BYTES.max((budget_bytes as f64 * ALLOWED_SHARE) as u64)
}

/// The sentence of the summary that says that the budget was not kept.
fn confession(summary: &str) -> Option<&str> {
    summary.lines().find(|line| line.contains(CONFESSION))
}

/// Longest time between two samples of a run.
fn longest_gap(runs: &[Run]) -> f64 {
    let gaps = runs.iter().flat_map(|run| {
        let pairs = run.samples.windows(2);
        pairs.map(|pair| pair[1].at_ns - pair[0].at_ns)
    });
    gaps.max().unwrap_or(0) as f64 / 1e6
}

/// What the runs of one kind of contents and mappings showed.
struct Case {
    contents: &'static str,
    how_taken: &'static str,
    budget_bytes: u64,
    /// Memory that the program takes, in GiB.
    gib: f64,
    native: Run,
    runs: Vec<Run>,
    /// Over all samples, over those of filling, over those of reading back.
    overshoots: [Overshoot; 3],
}

impl Case {
    /// Runs it natively, then as often as is asked for under a budget of so many percent of its contents.
    fn of(
        bench: &Bench,
        contents: &'static str,
        how_taken: &'static str,
        percent: u64,
    ) -> Result<Case> {
        let options = bench.options;
        let budget_mib = options.mebibytes * percent / 100;
        let budget_bytes = budget_mib << 20;
        eprintln!("{contents}, {how_taken}: native, then under a budget of {budget_mib} MiB");
        let native = bench.run(contents, how_taken, None)?;
        let runs = (0..options.rounds)
            .map(|_| bench.run(contents, how_taken, Some(budget_mib)))
            .collect::<Result<Vec<_>>>()
            .with_context(|| format!("{contents}, {how_taken}"))?;
        Ok(Case {
            contents,
            how_taken,
            budget_bytes,
            gib: options.mebibytes as f64 / 1024.0,
            native,
            overshoots: overshoots(&runs, budget_bytes),
            runs,
        })
    }

    /// The worst overshoot, in bytes.
    fn worst(&self) -> u64 {
        let p99 = self.overshoots.iter().map(|overshoot| overshoot.p99);
        p99.max().unwrap_or(0)
    }

    /// Pages with wrong contents.
    fn wrong(&self) -> u64 {
        self.runs.iter().map(|run| run.wrong).sum()
    }

    fn kept(&self) -> bool {
        self.worst() < allowed(self.budget_bytes) && self.wrong() == 0
    }

    /// The median of the rates under the budget, in GiB/s, of a phase that takes so many seconds.
    fn rate(&self, seconds: impl Fn(&Run) -> f64) -> f64 {
        let rates: Vec<f64> = self.runs.iter().map(|r| self.gib / seconds(r)).collect();
        median(&rates)
    }

    /// Rates of filling and of reading back under the budget, in GiB/s.
    fn rates(&self) -> [f64; 2] {
        [
            self.rate(|run| run.fill_seconds),
            self.rate(|run| run.read_seconds),
        ]
    }

    fn row(&self, table: &mut Table) {
        let [all, fill, read] = &self.overshoots;
        let [filling, reading] = self.rates();
        table.row(&[
            format!("{}, {}", self.contents, self.how_taken),
            mib(self.budget_bytes),
            format!("{:.2}", self.gib / self.native.fill_seconds),
            format!("{filling:.2}"),
            format!("{:.2}", self.gib / self.native.read_seconds),
            format!("{reading:.2}"),
            all.samples.to_string(),
            format!("{:.1} %", 100.0 * all.above_share),
            mib(fill.p99),
            mib(read.p99),
            mib(all.p99),
            mib(all.max),
            format!(
                "{:.1} %",
                100.0 * self.worst() as f64 / self.budget_bytes as f64
            ),
            if self.kept() { "yes" } else { "NO" }.to_owned(),
        ]);
    }

    fn json(&self) -> Value {
        let [all, fill, read] = &self.overshoots;
        let [filling, reading] = self.rates();
        let summaries = self.runs.iter().map(|run| run.summary.clone());
        let statistics = self
            .runs
            .iter()
            .map(|run| run.statistics.as_ref().map(|s| s.0.clone()));
        json!({
            "contents": self.contents, "mappings": self.how_taken, "budget_bytes": self.budget_bytes,
            "native_fill_gib_s": self.gib / self.native.fill_seconds, "fill_gib_s": filling,
            "native_read_gib_s": self.gib / self.native.read_seconds, "read_gib_s": reading,
            "all": all.json(), "filling": fill.json(), "reading": read.json(),
            "wrong_pages": self.wrong(), "kept": self.kept(),
            "summaries": summaries.collect::<Vec<_>>(),
            "statistics": statistics.collect::<Vec<_>>(),
        })
    }
}

/// Headings of the table of cases.
const HEADINGS: [&str; 14] = [
    "contents, mappings",
    "budget",
    "native GiB/s",
    "achieved",
    "reading",
    "achieved",
    "samples",
    "above",
    "p99 fill",
    "p99 read",
    "p99 all",
    "max",
    "of budget",
    "kept",
];

/// What all cases came to.
struct Cases {
    figures: Vec<Value>,
    all_kept: bool,
    /// Longest time between two samples, in ms.
    gap: f64,
}

/// Runs all cases; each has a row of the table.
fn cases(bench: &Bench, table: &mut Table) -> Result<Cases> {
    let mut cases = Cases {
        figures: Vec::new(),
        all_kept: true,
        gap: 0.0,
    };
    for (contents, percent) in CASES {
        for how_taken in ["one", "pieces"] {
            let case = Case::of(bench, contents, how_taken, percent)?;
            cases.all_kept &= case.kept();
            cases.gap = cases.gap.max(longest_gap(&case.runs));
            case.row(table);
            let wrong = case.wrong();
            if wrong > 0 {
                println!("WRONG: {contents}, {how_taken}: {wrong} pages had wrong contents");
            }
            cases.figures.push(case.json());
        }
    }
    Ok(cases)
}

/// Runs all cases, and the one that cannot be kept; 1 if a verdict is no.
pub fn run(options: &Options) -> Result<u8> {
    install::packages(&[install::GCC])?;
    let machine = Machine::now();
    let (dir, _guard) = workspace::temporary_dir("budget")?;
    let bench = Bench::new(options, "bench_grow", &dir)?;
    let mut table = Table::new(&HEADINGS);
    let Cases {
        figures,
        all_kept,
        gap,
    } = cases(&bench, &mut table)?;
    println!("\n{table}");
    println!(
        "Samples every {} ms, from outside, of resident less shared memory (statm); longest time between\n\
         two: {gap:.1} ms. p99: of what samples are above the budget. Rates are medians over {} round(s).",
        INTERVAL.as_millis(),
        options.rounds
    );
    println!("{machine}");
    println!(
        "p99 overshoot below 64 MiB or 5 %: {}\n",
        if all_kept { "yes" } else { "no" }
    );

    let unreachable = unreachable(&bench)?;
    let said = unreachable["said"].as_str().is_some();
    if let Some(path) = &options.json {
        let json = json!({
            "machine": machine.json(), "mebibytes": options.mebibytes, "rounds": options.rounds,
            "cases": figures, "longest_gap_ms": gap, "kept": all_kept, "unreachable": unreachable,
        });
        output::json(path, &json)?;
    }
    Ok(u8::from(!(all_kept && said)))
}

/// A budget below what noise needs: a run that does not end is an error.
fn unreachable(bench: &Bench) -> Result<Value> {
    let budget_mib = bench.options.mebibytes * UNREACHABLE_PERCENT / 100;
    eprintln!("noise under a budget of {budget_mib} MiB, which it cannot be held in");
    let native = bench.run("noise", "one", None)?;
    let run = bench.run("noise", "one", Some(budget_mib))?;
    let seconds = |run: &Run| run.fill_seconds + run.read_seconds;
    let said = confession(&run.summary);
    println!(
        "budget of {budget_mib} MiB for {} MiB that do not compress: ran to its end in {:.2} s (native {:.2} s), \
         {} wrong pages",
        bench.options.mebibytes,
        seconds(&run),
        seconds(&native),
        run.wrong
    );
    println!("the summary: {}", run.summary);
    println!(
        "the program runs to its end, and the summary says that the budget was not kept: {}",
        match said {
            Some(words) => format!("yes: \"{words}\""),
            None => "no".to_owned(),
        }
    );
    Ok(json!({
        "budget_bytes": budget_mib << 20, "seconds": seconds(&run), "native_seconds": seconds(&native),
        "wrong_pages": run.wrong, "summary": run.summary,
        "said": said.filter(|_| run.wrong == 0),
        "statistics": run.statistics.as_ref().map(|s| s.0.clone()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overshoot_is_what_samples_are_above() {
        let samples: Vec<Sample> = (0..100)
            .map(|n| Sample {
                at_ns: n,
                private_bytes: if n < 98 { 90 } else { 100 + n },
            })
            .collect();
        let over = Overshoot::of(samples.iter(), 100);
        assert_eq!((over.samples, over.p99, over.max), (100, 98, 99));
        assert!((over.above_share - 0.02).abs() < 1e-9);
        assert_eq!(Overshoot::of([].iter(), 100).p99, 0);
    }

    #[test]
    fn the_larger_limit_holds() {
        assert_eq!(allowed(100 << 20), 64 << 20);
        assert_eq!(allowed(100 << 30), 5 << 30);
    }

    #[test]
    fn a_summary_that_says_nothing_confesses_nothing() {
        assert_eq!(confession("coldpress: p: 3.0 MiB at most\n"), None);
        let line = "coldpress: BUDGET MISSED: above 3.0 MiB for 9 % of the time, by up to 5.0 MiB";
        let said = format!("coldpress: p: 3.0 MiB at most\n{line}\n");
        assert_eq!(confession(&said), Some(line));
    }
}
