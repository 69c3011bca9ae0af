//! `cargo xtask bench idle`: what does the pager cost where it has nothing to do?
//!
//! 1. A program that holds memory and sleeps: CPU time of the pager's threads once all has settled, under
//!    a budget above its size, without a budget as `coldpress run` is by default, and with a cold age, by
//!    which everything is compressed before it settles.
//! 2. A program whose memory fits: random touches under a budget of four times as much, and GETs of
//!    redis under a budget that nothing comes near; native and managed in turns, medians.
//!
//! CPU time is that of `/proc/PID/task/*/schedstat`, in nanoseconds: ticks are too coarse here.

use super::machine::{self, Machine};
use super::stepwise::{self, How, Stepwise, median, number};
use crate::child::Running;
use crate::text::{Table, mib, thousands};
use crate::{install, workspace};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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
    /// How long it touches each time, in seconds
    #[arg(long, default_value_t = 10.0)]
    touch_seconds: f64,
    /// How often native and managed take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// GETs that redis answers in each turn; 0: leave redis out
    #[arg(long, default_value_t = 2_000_000)]
    gets: u64,
    /// Leave the sleeping program out
    #[arg(long)]
    without_sleeping: bool,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What the pager may cost where the program sleeps, as a share of a processor.
const IDLE_SHARE: f64 = 0.005;
/// What it may cost in throughput.
const LOSS_SHARE: f64 = 0.02;
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

/// The program that sleeps, under each kind of settings.
fn sleeping(
    options: &Options,
    coldpress: &Path,
    program: &Path,
    table: &mut Table,
) -> Result<Value> {
    let available = machine::available_bytes() >> 20;
    let size = options.mebibytes.min(available / 2);
    if size < options.mebibytes {
        println!(
            "NOTE: {size} MiB instead of {}: only {available} MiB are available here",
            options.mebibytes
        );
    }
    let budget = format!("{}M", size + size / 4 + 64);
    let cold = Duration::from_secs(5);
    let settings: [(&str, &[&str], Duration); 3] = [
        ("budget above its size", &["--budget", &budget], QUIET),
        ("no budget, cold age 5 s", &["--cold-after", "5s"], cold * 4),
        ("no budget, by default", &[], QUIET),
    ];
    let mut figures = Vec::new();
    for (name, settings, least) in settings {
        eprintln!("sleeping, {size} MiB: {name}");
        let how = How::managed(coldpress, &[&["-q"], settings].concat());
        let arguments = [size.to_string(), "0".to_owned(), "1".to_owned()];
        let mut running = Stepwise::start(&how, program, &arguments)?;
        running.go()?;
        running.next("filled", Duration::from_secs(300))?;
        let settled = settle(&running, coldpress, least)?;
        let evictions = |program: &Stepwise| -> Result<u64> {
            let statistics = program.statistics(coldpress)?;
            Ok(statistics.get("evictions").unwrap_or(0))
        };
        let evicted = evictions(&running)?;
        let (before, begin) = (pager_threads(running.pid)?, Instant::now());
        std::thread::sleep(Duration::from_secs(options.seconds));
        let after = pager_threads(running.pid)?;
        let seconds = begin.elapsed().as_secs_f64();
        let meanwhile = evictions(&running)? - evicted;
        running.finish()?;
        let threads = since(&before, &after, seconds);
        let share: f64 = threads.iter().map(|(_, share, _)| share).sum();
        let turns: f64 = threads.iter().map(|(.., turns)| turns).sum();
        let kind = |name: &str| -> f64 {
            let of_kind = threads.iter().filter(|(thread, ..)| thread == name);
            of_kind.map(|(_, share, _)| share).sum()
        };
        let percent = |share: f64| format!("{:.3} %", 100.0 * share);
        table.row(&[
            name.to_owned(),
            format!("{size} MiB"),
            format!("{:.0} s", settled.as_secs_f64()),
            thousands(evicted),
            thousands(meanwhile),
            percent(kind("coldpress/main")),
            percent(kind("coldpress/watch")),
            percent(kind("coldpress/fault")),
            format!("{turns:.0}"),
            percent(share),
            if share <= IDLE_SHARE { "yes" } else { "NO" }.to_owned(),
        ]);
        figures.push(json!({
            "settings": name, "mebibytes": size, "settled_after_s": settled.as_secs_f64(),
            "evictions_before": evicted, "evictions_meanwhile": meanwhile, "seconds": seconds,
            "share_of_a_processor": share,
            "threads": threads.iter().map(|(name, share, turns)| json!({
                "name": name, "share_of_a_processor": share, "turns_a_second": turns,
            })).collect::<Vec<_>>(),
            "kept": share <= IDLE_SHARE,
        }));
    }
    Ok(figures.into())
}

/// Huge pages of a process, in bytes.
fn huge_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// What one turn brought: a rate, evictions, huge pages.
struct Turn {
    rate: f64,
    evictions: u64,
    huge_bytes: u64,
}

fn touch(
    options: &Options,
    threads: usize,
    how: &How,
    program: &Path,
    coldpress: Option<&Path>,
) -> Result<Turn> {
    let seconds = options.touch_seconds;
    let arguments = [
        options.touched.to_string(),
        seconds.to_string(),
        threads.to_string(),
    ];
    let mut running = Stepwise::start(how, program, &arguments)?;
    running.go()?;
    running.next("filled", Duration::from_secs(120))?;
    let huge_bytes = huge_bytes(running.pid);
    running.go()?;
    let limit = Duration::from_secs_f64(seconds + 120.0);
    std::thread::sleep(Duration::from_secs_f64(seconds * 0.9));
    // While it runs: it ends as soon as it has told its figures.
    let evictions = match coldpress {
        Some(coldpress) => running.statistics(coldpress)?.get("evictions").unwrap_or(0),
        None => 0,
    };
    let touched = running.next("touched", limit)?;
    running.finish()?;
    Ok(Turn {
        rate: number(&touched, "touches")? / number(&touched, "seconds")?,
        evictions,
        huge_bytes,
    })
}

/// Redis filled with values, then asked for them at random.
fn gets(options: &Options, how: &How, dir: &Path, coldpress: Option<&Path>) -> Result<Turn> {
    let socket = dir.join("redis.sock");
    let _ = fs::remove_file(&socket);
    let server = install::find_program("redis-server").context("no redis-server")?;
    let mut command = how.command(&server);
    command
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"])
        .arg(dir)
        .arg("--pidfile")
        .arg(dir.join("redis.pid"))
        .args(["--daemonize", "no", "--unixsocket"])
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let running = Running::start(&mut command, "redis-server")?;
    let until = Instant::now() + Duration::from_secs(30);
    let mut pid = None;
    while pid.is_none() {
        if Instant::now() > until {
            bail!("redis-server does not answer");
        }
        std::thread::sleep(Duration::from_millis(100));
        let text = fs::read_to_string(dir.join("redis.pid")).unwrap_or_default();
        pid = text.trim().parse::<u32>().ok().filter(|_| socket.exists());
    }
    let pid = pid.expect("the loop ends with one");
    running.program(pid)?;
    let benchmark = |arguments: &[&str]| -> Result<f64> {
        let output = Command::new("redis-benchmark")
            .arg("-s")
            .arg(&socket)
            .args(["--csv", "-r", "200000", "-d", "512", "-P", "16", "-c", "8"])
            .args(arguments)
            .output()
            .context("cannot start redis-benchmark")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = text.lines().last().unwrap_or_default();
        let rate = last.split(',').nth(1).map(|field| field.trim_matches('"'));
        rate.and_then(|rate| rate.parse().ok())
            .with_context(|| format!("redis-benchmark printed {text:?}"))
    };
    benchmark(&["-t", "set", "-n", "400000"])?;
    let rate = benchmark(&["-t", "get", "-n", &options.gets.to_string()])?;
    let evictions = match coldpress {
        Some(coldpress) => {
            let statistics = crate::managed::Statistics::live(coldpress, pid)?;
            statistics.get("evictions").unwrap_or(0)
        }
        None => 0,
    };
    let huge_bytes = huge_bytes(pid);
    let told = Command::new("redis-cli")
        .arg("-s")
        .arg(&socket)
        .args(["shutdown", "nosave"])
        .stdout(Stdio::null())
        .status();
    told.context("cannot start redis-cli")?;
    running.wait_for(Duration::from_secs(30))?;
    let _ = fs::remove_file(dir.join("redis.pid"));
    Ok(Turn {
        rate,
        evictions,
        huge_bytes,
    })
}

/// Native and managed in turns, each first in every other round (A B, B A): which memory a program gets depends on who
/// freed it.
fn in_turns(
    name: &str,
    rounds: u64,
    mut turn: impl FnMut(bool) -> Result<Turn>,
    table: &mut Table,
) -> Result<Value> {
    let (mut native, mut managed) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        for is_managed in [round % 2 == 0, round % 2 == 1] {
            let turns = if is_managed {
                &mut managed
            } else {
                &mut native
            };
            turns.push(turn(is_managed)?);
        }
        let last = |turns: &[Turn]| turns.last().map_or(0, |turn| turn.rate as u64);
        eprintln!(
            "{name} {round}/{rounds}: native {}/s, managed {}/s",
            thousands(last(&native)),
            thousands(last(&managed))
        );
    }
    let rates = |turns: &[Turn]| turns.iter().map(|turn| turn.rate).collect::<Vec<_>>();
    let (ours, theirs) = (rates(&managed), rates(&native));
    let pairs: Vec<_> = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
    let loss = 1.0 - median(&pairs);
    let spread = |rates: &[f64]| {
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        (most - least) / median(rates)
    };
    let evictions = managed.iter().map(|turn| turn.evictions).max();
    let huge = |turns: &[Turn]| turns.iter().map(|turn| turn.huge_bytes).max().unwrap_or(0);
    table.row(&[
        name.to_owned(),
        thousands(median(&theirs) as u64),
        thousands(median(&ours) as u64),
        format!(
            "{:.1} %, {:.1} %",
            100.0 * spread(&theirs),
            100.0 * spread(&ours)
        ),
        thousands(evictions.unwrap_or(0)),
        format!("{}, {}", mib(huge(&native)), mib(huge(&managed))),
        format!("{:+.2} %", 100.0 * loss),
        if loss <= LOSS_SHARE { "yes" } else { "NO" }.to_owned(),
    ]);
    Ok(json!({
        "workload": name, "native_rates": theirs, "managed_rates": ours, "loss": loss,
        "evictions": evictions, "native_huge_bytes": huge(&native),
        "managed_huge_bytes": huge(&managed), "kept": loss <= LOSS_SHARE,
    }))
}

/// Runs all of it; 1 if a verdict is no.
pub fn run(options: &Options) -> Result<u8> {
    let machine = Machine::now();
    install::packages(&[install::GCC])?;
    let (dir, _guard) = workspace::temporary_dir("idle")?;
    let coldpress = stepwise::coldpress()?;
    let program = stepwise::compile("bench_idle", &dir)?;

    let mut asleep = Value::Null;
    if !options.without_sleeping {
        let mut table = Table::new(&[
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
        ]);
        asleep = sleeping(options, &coldpress, &program, &mut table)?;
        println!("\n{table}");
        println!(
            "CPU time of the pager's threads over {} s; a processor is 100 %.",
            options.seconds
        );
    }

    let threads = match options.threads {
        0 => machine.processors(),
        threads => threads,
    };
    let mut table = Table::new(&[
        "working set fits",
        "native/s",
        "managed/s",
        "spread",
        "evictions",
        "huge pages",
        "loss",
        "kept",
    ]);
    let managed = |budget_mib: u64| {
        let budget = format!("{budget_mib}M");
        How::managed(&coldpress, &["-q", "--budget", &budget])
    };
    let ways = |with: bool, budget_mib| match with {
        true => (managed(budget_mib), Some(coldpress.as_path())),
        false => (How::native(), None),
    };
    let name = format!("touches, {} MiB, {threads} thread(s)", options.touched);
    let turn = |with| {
        let (how, coldpress) = ways(with, options.touched * 4);
        touch(options, threads, &how, &program, coldpress)
    };
    let mut fitting = vec![in_turns(&name, options.rounds, turn, &mut table)?];
    if options.gets > 0 {
        install::packages(&[install::REDIS])?;
        let turn = |with| {
            let (how, coldpress) = ways(with, 2048);
            gets(options, &how, &dir, coldpress)
        };
        fitting.push(in_turns("redis GET", options.rounds, turn, &mut table)?);
    }
    println!("\n{table}");
    println!(
        "Medians over {} rounds of native and managed in turns (loss: of the rounds' ratios); spread: highest less lowest.",
        options.rounds
    );
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
        fs::write(path, format!("{json:#}\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
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
