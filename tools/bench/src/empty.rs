//! `cargo xtask bench empty`: what memory costs that is dropped and touched again, where nothing of it is away.
//!
//! The shapes are those of `bench_empty.c`, and `stress-ng --vm`. Natively and under `coldpress run` in turns; the pager has
//! something to take before (the programs rest), and first touches that come to a handler all the same are counted. A budget
//! that is never reached, near enough to be watched, is a side of its own.

use super::machine::Machine;
use crate::stepwise::{self, number};
use anyhow::{Context, Result, bail, ensure};
use coldpress_harness::figures::median;
use coldpress_harness::managed::{NO_BUDGET, Statistics, Wrapper};
use coldpress_harness::text::{Table, thousands};
use coldpress_harness::{install, output, workspace};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Memory of the program before it begins, in MiB
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(16..=65536))]
    heap: u64,
    /// So long it rests then, in milliseconds
    #[arg(long, default_value_t = 3000)]
    rest: u64,
    /// Memory that is touched, dropped, and touched again, in MiB
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..))]
    work: u64,
    /// How often the sides take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Another program, which drops memory: it is run as it is, and under coldpress
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The shapes, and what a program does that has them.
const SHAPES: [(&str, &str); 4] = [
    ("purge", "blocks of a heap, MADV_DONTNEED"),
    ("map", "mmap and munmap beside a cold heap"),
    ("brk", "brk up and down beside a cold heap"),
    ("vm", "all of a mapping, MADV_DONTNEED"),
];

/// How a program is run.
const SIDES: [&str; 3] = ["native", "coldpress", "budget"];

/// What is run.
struct Job {
    name: String,
    what: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// The program tells how long its work took; else all of it counts.
    tells: bool,
}

/// One side's rounds of a job.
#[derive(Default)]
struct Rounds {
    seconds: Vec<f64>,
    cpu_seconds: Vec<f64>,
    touched: u64,
    zero_faults: Vec<f64>,
    evictions: Vec<f64>,
    unregistered_pages: Vec<f64>,
}

impl Rounds {
    fn json(&self, job: &str, side: &str) -> Value {
        json!({
            "job": job, "side": side, "seconds": self.seconds, "cpu_seconds": self.cpu_seconds,
            "touched": self.touched, "zero_faults": self.zero_faults, "evictions": self.evictions,
            "unregistered_pages": self.unregistered_pages,
        })
    }
}

fn jobs(options: &Options, dir: &Path) -> Result<Vec<Job>> {
    let program = stepwise::compile("bench_empty", dir)?;
    let numbers = [options.heap, options.rest, options.work];
    let mut jobs: Vec<Job> = SHAPES
        .iter()
        .map(|(name, what)| Job {
            name: (*name).to_owned(),
            what: (*what).to_owned(),
            program: program.clone(),
            arguments: [(*name).to_owned()]
                .into_iter()
                .chain(numbers.map(|n| n.to_string()))
                .collect(),
            tells: true,
        })
        .collect();
    let stress = install::find_program("stress-ng").context("no stress-ng here")?;
    let size = format!("{}M", options.heap);
    let words = ["--vm", "1", "--vm-bytes", &size, "--vm-ops", "20000", "-q"];
    jobs.push(Job {
        name: "stress-ng".into(),
        what: "stress-ng --vm 1 --vm-ops 20000".into(),
        program: stress,
        arguments: words.map(str::to_owned).to_vec(),
        tells: false,
    });
    if let Some(program) = &options.program {
        jobs.push(Job {
            name: "program".into(),
            what: program.display().to_string(),
            program: program.clone(),
            arguments: Vec::new(),
            tells: false,
        });
    }
    Ok(jobs)
}

/// Processor time of the children that were waited for.
fn children_cpu_seconds() -> f64 {
    // SAFETY: the call fills the structure; zero is a value of it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn measure(job: &Job, how: &Wrapper, rounds: &mut Rounds) -> Result<()> {
    let (began, cpu) = (Instant::now(), children_cpu_seconds());
    let output = how
        .command(&job.program)
        .args(&job.arguments)
        .output()
        .with_context(|| format!("cannot start {}", job.program.display()))?;
    let (mut seconds, mut cpu) = (began.elapsed().as_secs_f64(), children_cpu_seconds() - cpu);
    ensure!(
        output.status.success(),
        "{}: {}\n{}{}",
        job.name,
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if job.tells {
        let text = String::from_utf8(output.stdout)?;
        let line = text.lines().last().context("the program told nothing")?;
        let told: Value = serde_json::from_str(line)?;
        if number(&told, "wrong")? != 0.0 {
            bail!("{}: pages were wrong: {told}", job.name);
        }
        (seconds, cpu) = (
            number(&told, "took_ns")? / 1e9,
            number(&told, "cpu_ns")? / 1e9,
        );
        rounds.touched = number(&told, "touched")? as u64;
    }
    rounds.seconds.push(seconds);
    rounds.cpu_seconds.push(cpu);
    if let Wrapper::Managed { statistics, .. } = how {
        let all = Statistics::read(statistics)?;
        let get = |name: &str| all.get(name).unwrap_or(0) as f64;
        rounds.zero_faults.push(get("faults_zero"));
        rounds.evictions.push(get("evictions"));
        rounds.unregistered_pages.push(get("unregistered_pages"));
    }
    Ok(())
}

fn sides(options: &Options, dir: &Path) -> Result<[Wrapper; 3]> {
    let binary = workspace::coldpress()?;
    let managed = |budget_bytes| Wrapper::Managed {
        binary: binary.clone(),
        budget_bytes,
        statistics: dir.join("statistics.json"),
    };
    // The program stands at four fifths of it.
    let budget_bytes = (options.heap << 20) / 4 * 5;
    Ok([Wrapper::Native, managed(NO_BUDGET), managed(budget_bytes)])
}

fn table(jobs: &[Job], found: &[[Rounds; 3]]) -> Table {
    let mut table = Table::new(&[
        "shape",
        "side",
        "time",
        "of native",
        "processor",
        "of native",
        "zero faults",
        "of touches",
        "taken",
    ]);
    for (job, sides) in jobs.iter().zip(found) {
        let native = &sides[0];
        for (rounds, side) in sides.iter().zip(SIDES) {
            let times = |ours: &[f64], theirs: &[f64]| {
                let paired = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
                format!("{:.2}", median(&paired.collect::<Vec<f64>>()))
            };
            let zeros = median(&rounds.zero_faults);
            let share = match rounds.touched {
                0 => "–".to_owned(),
                touched => format!("{:.2} %", 100.0 * zeros / touched as f64),
            };
            table.row(&[
                job.name.clone(),
                side.to_owned(),
                format!("{:.2} s", median(&rounds.seconds)),
                times(&rounds.seconds, &native.seconds),
                format!("{:.2} s", median(&rounds.cpu_seconds)),
                times(&rounds.cpu_seconds, &native.cpu_seconds),
                thousands(zeros as u64),
                share,
                thousands(median(&rounds.evictions) as u64),
            ]);
        }
    }
    table
}

/// Runs all of it. What is wrong with content is an error.
pub fn run(options: &Options) -> Result<u8> {
    install::packages(&[install::GCC, install::program("stress-ng", "stress-ng")])?;
    let machine = Machine::now();
    let (dir, _guard) = workspace::temporary_dir("empty")?;
    let jobs = jobs(options, &dir)?;
    let ways = sides(options, &dir)?;
    let mut found: Vec<[Rounds; 3]> = jobs.iter().map(|_| Default::default()).collect();
    for round in 1..=options.rounds {
        for (job, sides) in jobs.iter().zip(&mut found) {
            for (rounds, (how, side)) in sides.iter_mut().zip(ways.iter().zip(SIDES)) {
                measure(job, how, rounds)?;
                let took = rounds.seconds.last().copied().unwrap_or(0.0);
                eprintln!(
                    "round {round}/{}: {} {side}: {took:.2} s",
                    options.rounds, job.name
                );
            }
        }
    }
    println!("\n{}", table(&jobs, &found));
    for job in &jobs {
        println!("{}: {}", job.name, job.what);
    }
    println!(
        "\n{} MiB of heap that rested for {} ms before, {} MiB touched; medians of {} round(s), \"of native\" of pairs. Budget: \
         {} MiB.\nProcessor time of bench_empty is that of its own thread, that of other programs the pager's too.\n{machine}",
        options.heap,
        options.rest,
        options.work,
        options.rounds,
        options.heap / 4 * 5,
    );
    if let Some(path) = &options.json {
        let all = jobs.iter().zip(&found).flat_map(|(job, sides)| {
            let named = sides.iter().zip(SIDES);
            named.map(|(rounds, side)| rounds.json(&job.name, side))
        });
        let all: Vec<Value> = all.collect();
        output::json(path, &json!({ "rounds": all, "machine": machine.json() }))?;
    }
    Ok(0)
}
