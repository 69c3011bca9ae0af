//! `cargo xtask bench idle`: what does the pager cost where it has nothing to do?
//!
//! 1. A program that holds memory and sleeps: CPU time of the pager's threads once all has settled, under
//!    a budget above its size, without a budget as `coldpress run` is by default, and with a cold age, by
//!    which everything is compressed before it settles.
//! 2. A program whose memory fits ([`fits`]): random touches under a budget of four times as much, and GETs
//!    of redis under a budget that nothing comes near; native and managed in turns.
//!
//! CPU time is that of `/proc/PID/task/*/schedstat`, in nanoseconds: ticks are too coarse here.

use crate::fits;
use crate::machine::{self, Machine};
use crate::stepwise::{self, How, Stepwise};
use anyhow::{Context, Result, bail};
use coldpress_harness::output;
use coldpress_harness::text::{Table, thousands};
use coldpress_harness::{install, workspace};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Memory of the program that sleeps, in MiB; less where the machine has not twice as much
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(64..=65536))]
    mebibytes: u64,
    /// How long it is watched, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..))]
    seconds: u64,
    /// Memory of the program that touches, in MiB
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(16..=16384))]
    touched: u64,
    /// Threads that touch; 0: one for each processor
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// How long it touches in each turn, in seconds
    #[arg(long, default_value_t = 0.4)]
    touch_seconds: f64,
    /// GETs that redis answers in each turn; 0: leave redis out
    #[arg(long, default_value_t = 200_000)]
    gets: u64,
    /// How often native and managed are started
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// How often they take turns each time
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,
    /// Leave the sleeping program out
    #[arg(long)]
    without_sleeping: bool,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What the pager may cost where the program sleeps, as a share of a processor.
const IDLE_SHARE: f64 = 0.005;
/// All has settled when nothing was compressed, and no more memory found, for so long. (Memory is looked for the more
/// seldom the longer a look takes.)
const QUIET: Duration = Duration::from_secs(40);
/// Longest time that is waited for that.
const SETTLE_LIMIT: Duration = Duration::from_secs(240);

/// CPU time of one thread of the pager.
#[derive(Clone, Debug, PartialEq)]
struct Thread {
    id: u32,
    name: String,
    ran_ns: u64,
    /// How often it was put on a processor.
    turns: u64,
}

/// The pager's threads of a process.
fn pager_threads(pid: u32) -> Result<Vec<Thread>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = entry?.path();
        // A thread that ends between the listing and the look has nothing to tell.
        let Ok(name) = fs::read_to_string(path.join("comm")) else {
            continue;
        };
        let name = name.trim().to_owned();
        if !name.starts_with("coldpress/") {
            continue;
        }
        let text = match fs::read_to_string(path.join("schedstat")) {
            Err(_) if !path.exists() => continue,
            text => text
                .context("this kernel does not tell the run time of threads (CONFIG_SCHED_INFO)")?,
        };
        let mut fields = text.split_whitespace().map(str::parse);
        let id = path.file_name().and_then(|id| id.to_str()?.parse().ok());
        let (Some(Ok(ran_ns)), _, Some(Ok(turns)), Some(id)) =
            (fields.next(), fields.next(), fields.next(), id)
        else {
            bail!("{}: {text:?} is no schedstat", path.display());
        };
        threads.push(Thread {
            id,
            name,
            ran_ns,
            turns,
        });
    }
    Ok(threads)
}

/// What the threads did between two looks, with the time between in seconds.
fn since(before: &[Thread], after: &[Thread], seconds: f64) -> Vec<(String, f64, f64)> {
    let earlier = |thread: &Thread| {
        let found = before.iter().find(|t| t.id == thread.id);
        found.map_or((0, 0), |t| (t.ran_ns, t.turns))
    };
    let each = after.iter().map(|thread| {
        let (ran_ns, turns) = earlier(thread);
        let share = (thread.ran_ns - ran_ns) as f64 / 1e9 / seconds;
        (
            thread.name.clone(),
            share,
            (thread.turns - turns) as f64 / seconds,
        )
    });
    each.collect()
}

/// Waits until nothing is compressed any more, and no more memory found; how long that took.
fn settle(program: &Stepwise, coldpress: &Path, least: Duration) -> Result<Duration> {
    let begin = Instant::now();
    let mut last = ([u64::MAX; 2], Instant::now());
    loop {
        let statistics = program.statistics(coldpress)?;
        let figures = ["evictions", "tracked_pages"].map(|name| statistics.get(name).unwrap_or(0));
        if figures != last.0 {
            last = (figures, Instant::now());
        }
        if last.1.elapsed() >= QUIET && begin.elapsed() >= least {
            return Ok(begin.elapsed());
        }
        if begin.elapsed() > SETTLE_LIMIT {
            eprintln!("still compressing after {} s", SETTLE_LIMIT.as_secs());
            return Ok(begin.elapsed());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// What is run, and where its files go.
struct Files<'a> {
    coldpress: &'a Path,
    program: &'a Path,
    dir: &'a Path,
}

impl Files<'_> {
    /// How a program runs natively, and under a budget of so many MiB; with each the command that tells its evictions.
    fn sides(&self, budget_mib: u64) -> [(How, Option<&Path>); 2] {
        let budget = format!("{budget_mib}M");
        let managed = How::managed(self.coldpress, &["-q", "--budget", &budget]);
        [(How::native(), None), (managed, Some(self.coldpress))]
    }
}

/// Headings of the table of the program that sleeps.
const SLEEPING_HEADINGS: [&str; 11] = [
    "sleeping under",
    "memory",
    "settled after",
    "evicted",
    "meanwhile",
    "main",
    "watch",
    "fault",
    "turns/s",
    "of a processor",
    "kept",
];

/// Memory of the program that sleeps, in MiB.
fn size_here(wanted: u64) -> u64 {
    let available = machine::available_bytes() >> 20;
    let size = wanted.min(available / 2);
    if size < wanted {
        println!("NOTE: {size} MiB instead of {wanted}: only {available} MiB are available here");
    }
    size
}

/// What the pager did while the program slept.
struct Sleep {
    mebibytes: u64,
    settled: Duration,
    /// Evictions until all had settled, and in the time after.
    evicted: u64,
    meanwhile: u64,
    /// How long the threads were watched.
    seconds: f64,
    /// Of each thread: name, share of a processor, turns a second.
    threads: Vec<(String, f64, f64)>,
}

impl Sleep {
    /// Starts the program, waits until all has settled, for `least` at least, and watches the pager's threads for so many
    /// seconds.
    fn watch(
        files: &Files,
        settings: &[&str],
        mebibytes: u64,
        least: Duration,
        seconds: u64,
    ) -> Result<Sleep> {
        let how = How::managed(files.coldpress, &[&["-q"], settings].concat());
        let arguments = [mebibytes.to_string(), "0".to_owned(), "1".to_owned()];
        let mut running = Stepwise::start(&how, files.program, &arguments)?;
        running.go()?;
        running.next("filled", Duration::from_secs(300))?;
        let settled = settle(&running, files.coldpress, least)?;
        let evictions = |program: &Stepwise| -> Result<u64> {
            let statistics = program.statistics(files.coldpress)?;
            Ok(statistics.get("evictions").unwrap_or(0))
        };
        let evicted = evictions(&running)?;
        let (before, begin) = (pager_threads(running.pid)?, Instant::now());
        std::thread::sleep(Duration::from_secs(seconds));
        let after = pager_threads(running.pid)?;
        let seconds = begin.elapsed().as_secs_f64();
        let meanwhile = evictions(&running)? - evicted;
        running.finish()?;
        Ok(Sleep {
            mebibytes,
            settled,
            evicted,
            meanwhile,
            seconds,
            threads: since(&before, &after, seconds),
        })
    }

    /// What all threads took, as a share of a processor.
    fn share(&self) -> f64 {
        self.threads.iter().map(|(_, share, _)| share).sum()
    }

    /// What the threads of one name took, as a share of a processor.
    fn share_of(&self, name: &str) -> f64 {
        let of_kind = self.threads.iter().filter(|(thread, ..)| thread == name);
        of_kind.map(|(_, share, _)| share).sum()
    }

    fn kept(&self) -> bool {
        self.share() <= IDLE_SHARE
    }

    fn row(&self, name: &str, table: &mut Table) {
        let turns: f64 = self.threads.iter().map(|(.., turns)| turns).sum();
        let percent = |share: f64| format!("{:.3} %", 100.0 * share);
        table.row(&[
            name.to_owned(),
            format!("{} MiB", self.mebibytes),
            format!("{:.0} s", self.settled.as_secs_f64()),
            thousands(self.evicted),
            thousands(self.meanwhile),
            percent(self.share_of("coldpress/main")),
            percent(self.share_of("coldpress/watch")),
            percent(self.share_of("coldpress/fault")),
            format!("{turns:.0}"),
            percent(self.share()),
            if self.kept() { "yes" } else { "NO" }.to_owned(),
        ]);
    }

    fn json(&self, name: &str) -> Value {
        json!({
            "settings": name, "mebibytes": self.mebibytes, "settled_after_s": self.settled.as_secs_f64(),
            "evictions_before": self.evicted, "evictions_meanwhile": self.meanwhile, "seconds": self.seconds,
            "share_of_a_processor": self.share(),
            "threads": self.threads.iter().map(|(name, share, turns)| json!({
                "name": name, "share_of_a_processor": share, "turns_a_second": turns,
            })).collect::<Vec<_>>(),
            "kept": self.kept(),
        })
    }
}

/// The program that sleeps, under each kind of settings; prints their table.
fn sleeping(options: &Options, files: &Files) -> Result<Value> {
    let size = size_here(options.mebibytes);
    let budget = format!("{}M", size + size / 4 + 64);
    let cold = Duration::from_secs(5);
    let settings: [(&str, &[&str], Duration); 3] = [
        ("budget above its size", &["--budget", &budget], QUIET),
        ("no budget, cold age 5 s", &["--cold-after", "5s"], cold * 4),
        ("no budget, by default", &[], QUIET),
    ];
    let mut table = Table::new(&SLEEPING_HEADINGS);
    let mut figures = Vec::new();
    for (name, settings, least) in settings {
        eprintln!("sleeping, {size} MiB: {name}");
        let sleep = Sleep::watch(files, settings, size, least, options.seconds)?;
        sleep.row(name, &mut table);
        figures.push(sleep.json(name));
    }
    println!("\n{table}");
    println!(
        "CPU time of the pager's threads over {} s; a processor is 100 %.",
        options.seconds
    );
    Ok(figures.into())
}

/// The programs whose memory fits, natively and managed in turns; prints their table.
fn fitting(options: &Options, files: &Files, threads: usize) -> Result<Vec<Value>> {
    let mut table = fits::table();
    let often = fits::Often {
        rounds: options.rounds,
        turns: options.turns,
    };
    let name = format!("touches, {} MiB, {threads} thread(s)", options.touched);
    let arguments = [
        options.touched.to_string(),
        options.touch_seconds.to_string(),
        threads.to_string(),
    ];
    let [native, managed] = files.sides(options.touched * 4);
    let start = |with| {
        let (how, coldpress) = if with { &managed } else { &native };
        fits::Touching::start(how, files.program, &arguments, *coldpress)
    };
    let mut fitting = vec![fits::in_turns(&name, &often, start, &mut table)?];
    if options.gets > 0 {
        install::packages(&[install::REDIS])?;
        let [native, managed] = files.sides(2048);
        let start = |with| {
            let (how, coldpress) = if with { &managed } else { &native };
            let dir = files.dir.join(if with { "managed" } else { "native" });
            fits::Redis::start(how, &dir, options.gets, *coldpress)
        };
        fitting.push(fits::in_turns("redis GET", &often, start, &mut table)?);
    }
    println!("\n{table}");
    println!("{}", fits::legend(&often));
    Ok(fitting)
}

/// Runs all of it; 1 if a verdict is no.
pub fn run(options: &Options) -> Result<u8> {
    let machine = Machine::now();
    install::packages(&[install::GCC])?;
    let (dir, _guard) = workspace::temporary_dir("idle")?;
    let coldpress = workspace::coldpress()?;
    let program = stepwise::compile("bench_idle", &dir)?;
    let files = Files {
        coldpress: &coldpress,
        program: &program,
        dir: &dir,
    };
    let asleep = match options.without_sleeping {
        true => Value::Null,
        false => sleeping(options, &files)?,
    };
    let threads = match options.threads {
        0 => machine.processors(),
        threads => threads,
    };
    let fitting = fitting(options, &files, threads)?;
    println!("{machine}");
    let kept = |list: &[Value]| list.iter().all(|figures| figures["kept"] == true);
    let idle_kept = asleep.as_array().is_none_or(|list| kept(list));
    let verdict = |kept| if kept { "yes" } else { "no" };
    if !asleep.is_null() {
        println!(
            "idle cost at most 0.5 % of a processor: {}",
            verdict(idle_kept)
        );
    }
    println!(
        "loss of throughput at most 2 %: {}",
        verdict(kept(&fitting))
    );
    if let Some(path) = &options.json {
        let json = json!({
            "machine": machine.json(), "sleeping": asleep, "fitting": fitting, "threads": threads,
        });
        output::json(path, &json)?;
    }
    Ok(u8::from(!(idle_kept && kept(&fitting))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn threads_are_compared_by_number() {
        let thread = |id, ran_ns, turns| Thread {
            id,
            name: "coldpress/main".to_owned(),
            ran_ns,
            turns,
        };
        let before = [thread(1, 500_000_000, 10)];
        let after = [thread(1, 1_000_000_000, 30), thread(2, 100_000_000, 2)];
        let did = since(&before, &after, 10.0);
        assert!((did[0].1 - 0.05).abs() < 1e-9 && (did[0].2 - 2.0).abs() < 1e-9);
        assert!((did[1].1 - 0.01).abs() < 1e-9, "it is new");
    }

    #[test]
    fn we_have_no_pager() {
        assert_eq!(pager_threads(std::process::id()).unwrap(), []);
    }

    #[test]
    fn threads_may_end_while_they_are_counted() {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        thread::spawn(|| ()).join().unwrap();
                    }
                });
            }
            let looks: Vec<_> = (0..2000)
                .map(|_| pager_threads(std::process::id()))
                .collect();
            stop.store(true, Ordering::Relaxed);
            for look in looks {
                assert_eq!(look.unwrap(), []);
            }
        });
    }
}
