//! `cargo xtask bench fork`: what it costs that memory is shared with a child.
//!
//! After a fork the kernel moves none of the pages that parent and child share, so the pager can take none of what
//! was in place then, and the budget is kept by the rest. The program (`bench_fork.c`) times the fork and what
//! parent and children do after it, natively and under a budget in turns.

use crate::machine::Machine;
use crate::stepwise::{self, How, Stepwise, Watch, number};
use anyhow::{Result, bail};
use coldpress_harness::figures::median;
use coldpress_harness::output;
use coldpress_harness::text::{Table, mib};
use coldpress_harness::{install, workspace};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Memory of the program, in MiB
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(16..=65536))]
    mebibytes: u64,
    /// Budget, in per cent of that
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(45..=100))]
    budget_percent: u64,
    /// How often native and managed take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is timed: its name in the program's line, and what it is.
const TIMED: [(&str, &str); 5] = [
    ("fork_ms", "the fork, seen by the parent"),
    ("child_reads_ms", "the child reads all"),
    ("parent_reads_ms", "the parent reads all, the child stays"),
    ("parent_writes_ms", "the parent writes all, the child stays"),
    (
        "generations_ms",
        "a child writes all and forks, both read all",
    ),
];

/// One side's rounds.
#[derive(Default)]
struct Side {
    /// Milliseconds, by what is timed.
    times: [Vec<f64>; TIMED.len()],
    peaks: Vec<u64>,
    wrong: u64,
}

impl Side {
    fn measure(
        &mut self,
        how: &How,
        bench: &stepwise::Bench<'_, Options>,
    ) -> Result<[f64; TIMED.len()]> {
        let arguments = [bench.options.mebibytes.to_string()];
        let mut program = Stepwise::start(how, &bench.program, &arguments)?;
        program.go()?;
        let limit = Duration::from_secs(60 + bench.options.mebibytes * 2);
        program.next("filled", limit)?;
        program.go()?;
        let watch = Watch::start(program.pid, Duration::from_millis(10))?;
        let round = program.next("round", limit)?;
        let samples = watch.finish();
        program.finish()?;
        let mut all = [0.0; TIMED.len()];
        for ((time, times), (name, _)) in all.iter_mut().zip(&mut self.times).zip(TIMED) {
            *time = number(&round, name)?;
            times.push(*time);
        }
        self.wrong += number(&round, "wrong")? as u64;
        let held = samples.iter().map(|sample| sample.private_bytes);
        self.peaks.push(held.max().unwrap_or(0));
        Ok(all)
    }

    fn json(&self, name: &str) -> Value {
        let times = TIMED.iter().zip(&self.times);
        let times = times.map(|((name, _), times)| ((*name).to_owned(), json!(times)));
        json!({
            "side": name, "times": times.collect::<serde_json::Map<_, _>>(),
            "peak_bytes": self.peaks, "wrong_pages": self.wrong,
        })
    }
}

/// Runs all of it; 1 if a page was wrong.
pub fn run(options: &Options) -> Result<u8> {
    install::packages(&[install::GCC])?;
    let machine = Machine::now();
    let (dir, _guard) = workspace::temporary_dir("fork")?;
    let bench = stepwise::Bench::new(options, "bench_fork", &dir)?;
    let budget_mib = options.mebibytes * options.budget_percent / 100;
    let budget = format!("{budget_mib}M");
    let managed_how = How::managed(&bench.coldpress, &["-q", "--budget", &budget]);
    let (mut native, mut managed) = (Side::default(), Side::default());
    for round in 1..=options.rounds {
        for (side, how, name) in [
            (&mut native, &How::native(), "native"),
            (&mut managed, &managed_how, "managed"),
        ] {
            let times = side.measure(how, &bench)?;
            let times = times.map(|time| format!("{time:.0}")).join(", ");
            eprintln!("round {round}/{}: {name}: {times} ms", options.rounds);
        }
    }
    let mut table = Table::new(&["after a fork", "native", "coldpress", "times as long"]);
    for (n, (_, what)) in TIMED.iter().enumerate() {
        let [ours, theirs] = [&managed, &native].map(|side| median(&side.times[n]));
        table.row(&[
            (*what).to_owned(),
            format!("{theirs:.1} ms"),
            format!("{ours:.1} ms"),
            format!("{:.1}", ours / theirs),
        ]);
    }
    let peak = managed.peaks.iter().max().copied().unwrap_or(0);
    println!("\n{table}");
    println!(
        "\n{} MiB of text, budget {budget_mib} MiB for each process; medians of {} round(s). The parent held {} at most.\n\
         What was in place at a fork is shared, and stays where it is until it is written.\n\
         {} pages were wrong.\n{machine}",
        options.mebibytes,
        options.rounds,
        mib(peak),
        native.wrong + managed.wrong,
    );
    if let Some(path) = &options.json {
        let all = json!({
            "mebibytes": options.mebibytes, "budget_bytes": budget_mib << 20,
            "sides": [native.json("native"), managed.json("coldpress")],
            "machine": machine.json(),
        });
        output::json(path, &all)?;
    }
    match native.wrong {
        0 => Ok(u8::from(managed.wrong > 0)),
        n => bail!("{n} pages were wrong natively: the program is"),
    }
}
