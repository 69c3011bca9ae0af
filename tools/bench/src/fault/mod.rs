//! `cargo xtask bench fault`: the anatomy of one fault.
//!
//! A program (`bench_fault.c`) touches pages at random and keeps the time of what took long; the pager notes when it reached
//! each stage of its answer (`COLDPRESS_TRACE_FAULTS`). Both read one clock, so that the two are joined fault by fault. Beside
//! it, in the same run: the least that can be done with a userfaultfd (a pinned handler for each thread that reads a message
//! and copies a page that is ready), and zram, where nothing but the whole is seen. With one, two and four threads, on all
//! processors and on one.
//!
//! | module | holds |
//! |---|---|
//! | `stages` | joining touches and answers; what the stages took |
//! | `counters` | context switches and interrupts of a phase |

mod counters;
mod stages;

use crate::machine::Machine;
use crate::stepwise::{self, How, Stepwise, number};
use crate::zram::Zram;
use anyhow::{Result, bail, ensure};
use coldpress_harness::cgroup::Group;
use coldpress_harness::text::{Table, thousands};
use coldpress_harness::{install, output, workspace};
use counters::Counted;
use serde_json::{Value, json};
use stages::{STAGES, Taken};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Size of the mapping, in MiB
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(16..=16384))]
    mebibytes: u64,
    /// Time of touching in each run, in seconds
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// How often the sides take turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Leave zram out
    #[arg(long)]
    without_zram: bool,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What a fault is answered by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Floor,
    Coldpress,
    Zram,
}

const SIDES: [(Side, &str); 3] = [
    (Side::Floor, "floor"),
    (Side::Coldpress, "coldpress"),
    (Side::Zram, "zram"),
];

/// Budget, in percent of the mapping.
const BUDGET_PERCENT: u64 = 65;
/// Limit of the group that swaps, in percent of the mapping: its pages and the pool take about the budget together.
const GROUP_PERCENT: u64 = 45;
/// Faults that the pager's trace has room for, and bytes of each.
const TRACED: u64 = 1 << 19;
const RECORD_BYTES: u64 = 64;

/// How many threads touch, and whether on one processor.
#[derive(Clone, Copy)]
struct Case {
    threads: u64,
    one_processor: bool,
}

impl Case {
    fn all(processors: usize) -> Vec<Case> {
        let on = |one_processor| {
            [1, 2, 4].map(|threads| Case {
                threads,
                one_processor,
            })
        };
        match processors {
            1 => on(true).to_vec(),
            _ => [on(false), on(true)].concat(),
        }
    }

    fn name(self, processors: usize) -> String {
        let processors = if self.one_processor { 1 } else { processors };
        let s = |n: u64| if n == 1 { "" } else { "s" };
        format!(
            "{} thread{}, {processors} processor{}",
            self.threads,
            s(self.threads),
            s(processors as u64)
        )
    }
}

/// What all rounds of one side showed.
#[derive(Default)]
struct Rounds {
    taken: Taken,
    counted: Vec<Counted>,
    touches: Vec<f64>,
}

struct Bench<'a> {
    options: &'a Options,
    coldpress: PathBuf,
    program: PathBuf,
    dir: &'a Path,
    zram: Option<Zram>,
}

/// Most kills by the kernel before a side is given up.
const MOST_KILLS: u32 = 10;

impl Bench<'_> {
    /// A group that swaps may be out of memory for a moment, and its program is killed then.
    fn run_again_if_killed(&self, side: Side, case: Case, rounds: &mut Rounds) -> Result<()> {
        for _ in 0..MOST_KILLS {
            match self.run(side, case, rounds) {
                Err(error) if side == Side::Zram => eprintln!("zram: {error:#}; again"),
                done => return done,
            }
        }
        bail!("zram: killed {MOST_KILLS} times")
    }

    /// One run of one side.
    fn run(&self, side: Side, case: Case, rounds: &mut Rounds) -> Result<()> {
        let o = self.options;
        let slow = self.dir.join("slow");
        let trace = match side {
            Side::Coldpress => self.dir.join("trace"),
            _ => self.dir.join("slow.handlers"),
        };
        let mut how = How::native();
        if side == Side::Coldpress {
            let file = File::create(&trace)?;
            file.set_len((TRACED + 1) * RECORD_BYTES)?;
            let budget = format!("{}M", o.mebibytes * BUDGET_PERCENT / 100);
            let options = ["-q", "--budget", &budget];
            how = How::managed(&self.coldpress, &options).with("COLDPRESS_TRACE_FAULTS", &trace);
        }
        let kind = if side == Side::Floor {
            "floor"
        } else {
            "touch"
        };
        let arguments = [
            kind.to_owned(),
            o.mebibytes.to_string(),
            o.seconds.to_string(),
            case.threads.to_string(),
            slow.display().to_string(),
        ];
        let _bound = case.one_processor.then(counters::bind_to_one).transpose()?;
        let mut program = Stepwise::start(&how, &self.program, &arguments)?;
        let group = match side {
            Side::Zram => Some(Group::limited(
                (o.mebibytes << 20) * GROUP_PERCENT / 100,
                8 << 30,
            )?),
            _ => None,
        };
        if let Some(group) = &group {
            group.admit(program.pid)?;
        }
        program.go()?;
        program.next("filled", Duration::from_secs(120))?;
        std::thread::sleep(Duration::from_millis(500));
        let before = Counted::now(program.pid);
        program.go()?;
        let touched = program.next("touched", Duration::from_secs(120))?;
        let after = Counted::now(program.pid);
        program.go()?;
        program.next("written", Duration::from_secs(120))?;
        program.finish()?;
        ensure!(
            number(&touched, "wrong")? == 0.0,
            "content was wrong: {touched}"
        );
        let answers = (side != Side::Zram).then_some(trace.as_path());
        rounds.taken.add(&slow, answers)?;
        rounds
            .counted
            .push(after.since(&before, number(&touched, "slow")?));
        rounds
            .touches
            .push(number(&touched, "touches")? / (number(&touched, "took_ns")? / 1e9));
        Ok(())
    }
}

/// Runs all of it. Wrong content is an error.
pub fn run(options: &Options) -> Result<u8> {
    install::packages(&[install::GCC])?;
    let machine = Machine::now();
    let (dir, _guard) = workspace::temporary_dir("fault")?;
    let bench = Bench {
        options,
        coldpress: workspace::coldpress()?,
        program: stepwise::compile("bench_fault", &dir)?,
        dir: &dir,
        zram: match options.without_zram {
            true => None,
            false => Some(Zram::swap(options.mebibytes << 21)?),
        },
    };
    let mut all = Vec::new();
    for case in Case::all(machine.processors()) {
        let name = case.name(machine.processors());
        let mut found: [Rounds; 3] = Default::default();
        for round in 1..=options.rounds {
            for ((side, side_name), rounds) in SIDES.into_iter().zip(&mut found) {
                if side == Side::Zram && bench.zram.is_none() {
                    continue;
                }
                bench.run_again_if_killed(side, case, rounds)?;
                let rate = rounds.touches.last().copied().unwrap_or(0.0);
                eprintln!(
                    "{name}, round {round}/{}: {side_name}: {} touches/s",
                    options.rounds,
                    thousands(rate as u64)
                );
            }
        }
        println!("\n{name}\n{}", table(&found));
        println!("{}", counters::table(&SIDES.map(|side| side.1), &found));
        all.push(json!({ "case": name, "sides": figures(&found) }));
    }
    println!(
        "µs; a fault is a touch of more than 1 µs. The floor's handlers are pinned to the processors of their threads, one for \
         each. zram swaps in a group of {GROUP_PERCENT} % of the {} MiB, coldpress has a budget of {BUDGET_PERCENT} %: what a \
         fault costs\nis compared here, not how many there are. The trace costs coldpress five readings of the clock a \
         fault.\n{machine}",
        options.mebibytes
    );
    if let Some(path) = &options.json {
        output::json(path, &json!({ "cases": all, "machine": machine.json() }))?;
    }
    Ok(0)
}

/// Median and 99th percentile of each stage, and the mean, which adds up.
fn table(found: &[Rounds; 3]) -> Table {
    let mut table = Table::new(&[
        "stage",
        "floor p50",
        "p99",
        "mean",
        "coldpress p50",
        "p99",
        "mean",
        "zram p50",
        "p99",
        "mean",
    ]);
    let cells = |rounds: &Rounds, stage: usize| {
        let [p50, p99, mean] = rounds
            .taken
            .stage(stage)
            .map(|ns| format!("{:.1}", ns / 1e3));
        [p50, p99, mean]
    };
    for (n, stage) in STAGES.iter().enumerate() {
        let mut row = vec![(*stage).to_owned()];
        for (rounds, (side, _)) in found.iter().zip(SIDES) {
            match side == Side::Zram && n + 1 < STAGES.len() {
                true => row.extend(["–"; 3].map(str::to_owned)),
                false => row.extend(cells(rounds, n)),
            }
        }
        table.row(&row);
    }
    table
}

fn figures(found: &[Rounds; 3]) -> Value {
    let side = |rounds: &Rounds, name: &str| {
        let stages = STAGES.iter().enumerate().map(|(n, stage)| {
            let [p50, p99, mean] = rounds.taken.stage(n);
            json!({ "stage": stage, "p50_ns": p50, "p99_ns": p99, "mean_ns": mean })
        });
        json!({
            "side": name, "stages": stages.collect::<Vec<_>>(), "touches_a_second": rounds.touches,
            "slow": rounds.taken.slow, "joined": rounds.taken.joined(),
            "counters": rounds.counted.iter().map(Counted::json).collect::<Vec<_>>(),
        })
    };
    let sides = found.iter().zip(SIDES);
    sides
        .map(|(rounds, (_, name))| side(rounds, name))
        .collect()
}
