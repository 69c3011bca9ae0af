//! `cargo xtask bench deadline`: does a thread with deadlines miss more of them while the memory of
//! its process is compressed?
//!
//! The program (`bench_deadline.c`) has a thread as of audio, on memory that is locked, and one that
//! fills and touches far more memory than the budget. Native and managed take turns, so that
//! whatever else goes on here meets both. Lateness is how long after its deadline a period was
//! through. Last, one run with the pager's locks traced (`COLDPRESS_TRACE_LOCKS`): how long they were
//! waited for and held.

use crate::machine::Machine;
use crate::stepwise::{self, How, Stepwise, Watch, number};
use anyhow::{Context, Result};
use coldpress_harness::figures::{median, quantile};
use coldpress_harness::output;
use coldpress_harness::text::{Table, bar, mib, thousands, time};
use coldpress_harness::{install, workspace};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Memory that is filled and touched, in MiB; the budget is half of it
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(64..=65536))]
    mebibytes: u64,
    /// Length of each run, in seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// Time between two deadlines, in microseconds
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..))]
    period: u64,
    /// Work to be done in that time, in microseconds of an undisturbed processor
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    work: u64,
    /// How often native and managed take turns
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Bounds of the histogram, in microseconds after the deadline. Before the first: met.
const BOUNDS_US: [u64; 8] = [0, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000];

/// What one run showed.
#[derive(Default)]
struct Run {
    took_us: Vec<u64>,
    woke_us: Vec<u64>,
    touched: f64,
    passes: f64,
    evictions: u64,
    peak_bytes: u64,
}

type Bench<'a> = stepwise::Bench<'a, Options>;

impl Bench<'_> {
    fn run(&self, managed: bool, trace: Option<&Path>) -> Result<Run> {
        let o = self.options;
        let statistics = self.dir.join("statistics.json");
        let mut how = match managed {
            false => How::native(),
            true => {
                let budget = format!("{}M", o.mebibytes / 2);
                let stats = statistics.to_string_lossy();
                let options = ["-q", "--budget", &budget, "--stats", &stats];
                How::managed(&self.coldpress, &options)
            }
        };
        if let Some(file) = trace {
            how = how.with("COLDPRESS_TRACE_LOCKS", file);
        }
        let arguments = [o.mebibytes, o.seconds, o.period, o.work].map(|n| n.to_string());
        let mut program = Stepwise::start(&how, &self.program, &arguments)?;
        let watch = Watch::start(program.pid, Duration::from_millis(50))?;
        program.go()?;
        let done = program.next("done", Duration::from_secs(o.seconds + 120))?;
        program.finish()?;
        let samples = watch.finish();
        let list = |name: &str| -> Result<Vec<u64>> {
            let list = done[name]
                .as_array()
                .with_context(|| format!("no {name}"))?;
            Ok(list.iter().filter_map(Value::as_u64).collect())
        };
        let evictions = match managed {
            false => 0,
            true => {
                let statistics = coldpress_harness::managed::Statistics::read(&statistics)?;
                statistics.get("evictions").unwrap_or(0)
            }
        };
        Ok(Run {
            took_us: list("took_us")?,
            woke_us: list("woke_us")?,
            touched: number(&done, "touched")?,
            passes: number(&done, "passes")?,
            evictions,
            peak_bytes: samples.iter().map(|s| s.private_bytes).max().unwrap_or(0),
        })
    }
}

/// All runs of one side together.
struct Side {
    name: &'static str,
    periods: u64,
    missed: u64,
    /// Of the periods that were late.
    lateness: Vec<u64>,
    took: Vec<u64>,
    woke: Vec<u64>,
    counts: [u64; BOUNDS_US.len() + 1],
    touched: f64,
    evictions: u64,
    peak_bytes: u64,
    missed_of_each: Vec<u64>,
}

impl Side {
    fn of(name: &'static str, runs: &[Run], period_us: u64) -> Side {
        let together = |list: fn(&Run) -> &Vec<u64>| -> Vec<u64> {
            runs.iter().flat_map(|run| list(run).clone()).collect()
        };
        let took = together(|run| &run.took_us);
        let late = |took: &u64| took.checked_sub(period_us).filter(|&late| late > 0);
        let lateness: Vec<u64> = took.iter().filter_map(late).collect();
        let mut counts = [0; BOUNDS_US.len() + 1];
        for took in &took {
            let bucket = late(took).map_or(0, |late| {
                BOUNDS_US.iter().filter(|&&bound| late > bound).count()
            });
            counts[bucket] += 1;
        }
        let missed_of = |run: &Run| run.took_us.iter().filter_map(late).count() as u64;
        Side {
            name,
            periods: took.len() as u64,
            missed: lateness.len() as u64,
            lateness,
            woke: together(|run| &run.woke_us),
            took,
            counts,
            touched: median(&runs.iter().map(|run| run.touched).collect::<Vec<_>>()),
            evictions: runs.iter().map(|run| run.evictions).sum(),
            peak_bytes: runs.iter().map(|run| run.peak_bytes).max().unwrap_or(0),
            missed_of_each: runs.iter().map(missed_of).collect(),
        }
    }

    fn share_missed(&self) -> f64 {
        self.missed as f64 / self.periods.max(1) as f64
    }

    fn row(&self, table: &mut Table) {
        let us = |list: &[u64], share| time(quantile(list, share) as f64 * 1e3);
        table.row(&[
            self.name.to_owned(),
            thousands(self.periods),
            thousands(self.missed),
            format!("{:.3} %", 100.0 * self.share_missed()),
            us(&self.lateness, 0.5),
            us(&self.lateness, 0.99),
            us(&self.lateness, 1.0),
            us(&self.took, 0.5),
            us(&self.took, 0.99),
            us(&self.woke, 0.99),
            thousands(self.touched as u64),
            thousands(self.evictions),
            mib(self.peak_bytes),
        ]);
    }

    fn json(&self) -> Value {
        let of = |list: &[u64]| json!({"p50_us": quantile(list, 0.5), "p99_us": quantile(list, 0.99), "max_us": quantile(list, 1.0)});
        json!({
            "side": self.name, "periods": self.periods, "missed": self.missed,
            "missed_of_each_run": self.missed_of_each, "lateness": of(&self.lateness),
            "through_after": of(&self.took), "woke_after": of(&self.woke),
            "histogram_bounds_us": BOUNDS_US, "histogram": self.counts,
            "touched_median": self.touched, "evictions": self.evictions, "peak_bytes": self.peak_bytes,
        })
    }
}

/// The histograms of both sides, beside each other.
fn histogram(sides: &[Side; 2]) -> Table {
    let mut table = Table::new(&["through", sides[0].name, "", sides[1].name, ""]);
    let us = |us: u64| time(us as f64 * 1e3);
    for bucket in 0..=BOUNDS_US.len() {
        let name = match bucket {
            0 => "in time".to_owned(),
            n if n == BOUNDS_US.len() => format!("later than {}", us(BOUNDS_US[n - 1])),
            n => format!("up to {} late", us(BOUNDS_US[n])),
        };
        let cells = sides.iter().flat_map(|side| {
            let count = side.counts[bucket];
            let share = (count as f64).ln_1p() / (side.periods as f64).ln_1p().max(1.0);
            [thousands(count), bar(share, 20)]
        });
        table.row(&[vec![name], cells.collect()].concat());
    }
    table
}

/// Headings of the table of sides.
const HEADINGS: [&str; 13] = [
    "side",
    "periods",
    "missed",
    "share",
    "late p50",
    "p99",
    "max",
    "through p50",
    "p99",
    "woke p99",
    "touches",
    "evictions",
    "peak",
];

/// Native and managed, as often by turns as is asked for.
fn by_turns(bench: &Bench) -> Result<[Side; 2]> {
    let options = bench.options;
    let (mut native, mut managed) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        for (runs, with) in [(&mut native, false), (&mut managed, true)] {
            let run = bench.run(with, None)?;
            let side = Side::of("", std::slice::from_ref(&run), options.period);
            eprintln!(
                "round {round}/{}: {}: {} of {} missed; {} passes of 64 KiB a period, {} touches, {} evictions",
                options.rounds,
                if with { "managed" } else { "native" },
                side.missed,
                side.periods,
                run.passes,
                thousands(run.touched as u64),
                thousands(run.evictions)
            );
            runs.push(run);
        }
    }
    Ok([
        Side::of("native", &native, options.period),
        Side::of("coldpress", &managed, options.period),
    ])
}

/// Prints the table of both sides, their histograms, and what they are of.
fn print(sides: &[Side; 2], options: &Options) {
    let mut table = Table::new(&HEADINGS);
    sides.iter().for_each(|side| side.row(&mut table));
    println!("\n{table}\n{}", histogram(sides));
    println!(
        "{} µs of work every {} µs on 4 MiB of locked memory, beside {} MiB that are filled and touched;\n\
         the budget is half of that. Late: of the periods that were late. Through, woke: after the begin of\n\
         the period. Bars are logarithmic. All at the ordinary priority.",
        options.work, options.period, options.mebibytes
    );
}

/// One run with the pager's locks traced: prints and returns the trace, which is empty if none was written.
fn locks(bench: &Bench) -> Result<String> {
    eprintln!("one run with locks traced");
    let trace = bench.dir.join("locks");
    let traced = bench.run(true, Some(&trace))?;
    let locks = fs::read_to_string(&trace).unwrap_or_default();
    match locks.is_empty() {
        true => println!("\nno trace of locks was written"),
        false => println!(
            "\nlocks of the pager in a run of {} s with {} evictions, traced:\n{locks}",
            bench.options.seconds,
            thousands(traced.evictions)
        ),
    }
    Ok(locks)
}

/// Runs all of it; 1 if more deadlines were missed than natively.
pub fn run(options: &Options) -> Result<u8> {
    install::packages(&[install::GCC])?;
    let machine = Machine::now();
    let (dir, _guard) = workspace::temporary_dir("deadline")?;
    let bench = Bench::new(options, "bench_deadline", &dir)?;
    let sides = by_turns(&bench)?;
    print(&sides, options);
    println!("{machine}");

    let locks = locks(&bench)?;
    let kept = sides[1].share_missed() <= sides[0].share_missed();
    println!(
        "misses no more deadlines than native ({} of {} against {} of {}): {}",
        sides[1].missed,
        sides[1].periods,
        sides[0].missed,
        sides[0].periods,
        if kept { "yes" } else { "no" }
    );
    if let Some(path) = &options.json {
        let json = json!({
            "machine": machine.json(), "mebibytes": options.mebibytes, "seconds": options.seconds,
            "period_us": options.period, "work_us": options.work,
            "sides": [sides[0].json(), sides[1].json()], "locks": locks, "kept": kept,
        });
        output::json(path, &json)?;
    }
    Ok(u8::from(!kept || locks.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_counts_from_the_deadline() {
        let run = Run {
            took_us: vec![2_000, 10_000, 10_050, 12_000, 200_001],
            ..Run::default()
        };
        let side = Side::of("x", &[run], 10_000);
        assert_eq!((side.periods, side.missed), (5, 3));
        assert_eq!(side.lateness, [50, 2_000, 190_001]);
        assert_eq!(side.counts, [2, 1, 0, 0, 1, 0, 0, 0, 1]);
    }
}
