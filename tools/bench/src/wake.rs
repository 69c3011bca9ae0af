//! `cargo xtask bench wake`: what the first request costs after a program has slept.
//!
//! Programs hold memory, use a part of it, and sleep until the pager has evicted them whole; then they are woken by a
//! request, natively and under `coldpress run --cold-after` in turns. Each is woken several times, with a rest before
//! each time: from the second on the pager can have learnt from the wake before.
//!
//! | program | a request |
//! |---|---|
//! | `bench_wake.c`, hot | touches a hot set in one order, in which neighbours are far apart |
//! | `bench_wake.c`, walk | reads all in the order of addresses, by one, two and four threads |
//! | node | goes through the documents of one customer in eight |
//! | redis | GET of one key, and of a thousand that were read before it slept |

use crate::fits::{Fitting, Redis};
use crate::machine::Machine;
use crate::stepwise::{self, Bench, How, Stepwise, number};
use anyhow::{Context, Result, bail, ensure};
use coldpress_harness::figures::{median, quantile};
use coldpress_harness::install::{self, Package, find_program, program};
use coldpress_harness::managed::Statistics;
use coldpress_harness::process::resident;
use coldpress_harness::text::{Table, mib, thousands, time};
use coldpress_harness::{output, workspace};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Memory of the programs that touch and of the service, in MiB
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(32..=16384))]
    mebibytes: u64,
    /// The hot set of the program that has one, in MiB
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=8192))]
    hot: u64,
    /// Pages of the stretches that the hot set is made of
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=8192))]
    stretch: u64,
    /// Seconds without a touch after which the pager evicts
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    cold_after: u64,
    /// Seconds that a program sleeps at least before it is woken
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=3600))]
    rest: u64,
    /// How often each program is woken
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    wakes: u64,
    /// How often native and managed take turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Only this case (can be repeated): hot, walk, node, redis
    #[arg(long = "only", value_name = "CASE")]
    only: Vec<String>,
    /// One more tunable of the pager, NAME=VALUE (can be repeated)
    #[arg(long = "tune", value_name = "NAME=VALUE")]
    tune: Vec<String>,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const CASES: [&str; 4] = ["hot", "walk", "node", "redis"];
const NODE: Package = program("nodejs", "node");
/// GETs of keys that were read before the rest.
const GETS: u64 = 1_000;
const LIMIT: Duration = Duration::from_secs(120);
/// The longest rest, where pages are evicted all the time.
const REST_LIMIT: Duration = Duration::from_secs(90);
/// Nothing was evicted for so long: the program is evicted whole.
const QUIET: Duration = Duration::from_secs(3);

/// One wake of one program.
#[derive(Clone, Debug, Default)]
struct Wake {
    /// Before it.
    held_bytes: u64,
    took_ns: f64,
    /// Of the touches that took more than a microsecond, where the program tells.
    slow: [f64; 3],
    pages: f64,
    faults: u64,
    ahead: u64,
}

/// What is woken.
trait Sleeper {
    fn pid(&self) -> u32;
    /// A request; how long it took and, where it is known, what its touches took.
    fn request(&mut self) -> Result<Wake>;
}

struct Program(Stepwise);

impl Program {
    fn start(how: &How, program: &Path, arguments: &[String]) -> Result<Self> {
        let mut program = Stepwise::start(how, program, arguments)?;
        program.go()?;
        let mut program = Self(program);
        program.told()?;
        Ok(program)
    }

    fn told(&mut self) -> Result<Wake> {
        let told = self.0.next("touched", LIMIT)?;
        ensure!(number(&told, "wrong")? == 0.0, "content was wrong: {told}");
        Ok(Wake {
            took_ns: number(&told, "took_ns")?,
            slow: [
                number(&told, "slow")?,
                number(&told, "p50_ns")?,
                number(&told, "p99_ns")?,
            ],
            pages: number(&told, "pages")?,
            ..Wake::default()
        })
    }
}

impl Sleeper for Program {
    fn pid(&self) -> u32 {
        self.0.pid
    }

    fn request(&mut self) -> Result<Wake> {
        self.0.go()?;
        self.told()
    }
}

/// redis and a connection to it.
struct Store<'a> {
    redis: Redis<'a>,
    client: BufReader<UnixStream>,
}

impl Store<'_> {
    fn get(&mut self, key: u64) -> Result<u64> {
        let began = Instant::now();
        write!(self.client.get_mut(), "GET key:{key:012}\r\n")?;
        let mut line = String::new();
        self.client.read_line(&mut line)?;
        let length = line
            .trim()
            .strip_prefix('$')
            .context("no answer to a GET")?;
        if let Ok(length) = length.parse::<u64>() {
            let read = std::io::copy(
                &mut self.client.by_ref().take(length + 2),
                &mut std::io::sink(),
            )?;
            ensure!(read == length + 2, "redis has closed the connection");
        }
        Ok(began.elapsed().as_nanos() as u64)
    }
}

impl Sleeper for Store<'_> {
    fn pid(&self) -> u32 {
        self.redis.pid()
    }

    fn request(&mut self) -> Result<Wake> {
        let began = Instant::now();
        let times: Result<Vec<u64>> = (0..GETS).map(|n| self.get(n * 7919 % 200_000)).collect();
        let times = times?;
        let at = |share| quantile(&times, share) as f64;
        Ok(Wake {
            took_ns: began.elapsed().as_nanos() as f64,
            slow: [times[0] as f64, at(0.5), at(0.99)],
            ..Wake::default()
        })
    }
}

/// Waits until the program has slept for long enough and nothing is evicted any more.
fn rest(options: &Options, coldpress: Option<&Path>, pid: u32) -> Result<()> {
    let (began, least) = (Instant::now(), Duration::from_secs(options.rest));
    let Some(coldpress) = coldpress else {
        sleep(Duration::from_secs(1));
        return Ok(());
    };
    let mut last = (u64::MAX, Instant::now());
    loop {
        sleep(Duration::from_millis(500));
        let evictions = Statistics::live(coldpress, pid)?
            .get("evictions")
            .unwrap_or(0);
        if evictions != last.0 {
            last = (evictions, Instant::now());
        }
        let quiet = last.1.elapsed() >= QUIET && began.elapsed() >= least;
        if quiet || began.elapsed() > REST_LIMIT {
            return Ok(());
        }
    }
}

/// Lets it sleep and wakes it, again and again.
fn wakes(
    options: &Options,
    coldpress: Option<&Path>,
    sleeper: &mut dyn Sleeper,
) -> Result<Vec<Wake>> {
    let figures = |pid| {
        coldpress
            .map(|coldpress| Statistics::live(coldpress, pid))
            .transpose()
    };
    let mut wakes = Vec::new();
    for _ in 0..options.wakes {
        let pid = sleeper.pid();
        rest(options, coldpress, pid)?;
        let held_bytes = resident(pid).map_or(0, |resident| resident.anonymous);
        let before = figures(pid)?;
        let mut wake = sleeper.request()?;
        if let (Some(before), Some(after)) = (before, figures(pid)?) {
            wake.faults = after.since(&before, "faults");
            wake.ahead = after.since(&before, "read_ahead");
        }
        wakes.push(Wake { held_bytes, ..wake });
    }
    Ok(wakes)
}

/// Native and managed wakes of one kind of program, round after round.
struct Case {
    name: String,
    /// By side, all rounds' wakes.
    sides: [Vec<Vec<Wake>>; 2],
}

/// What is woken, of the program whose name it is.
fn one(
    bench: &Bench<'_, Options>,
    name: &str,
    how: &How,
    coldpress: Option<&Path>,
) -> Result<Vec<Wake>> {
    let o = bench.options;
    let mebibytes = o.mebibytes.to_string();
    let (kind, threads) = name.split_once(' ').unwrap_or((name, "1"));
    let arguments = match kind {
        "hot" => [
            "hot".into(),
            mebibytes,
            o.hot.to_string(),
            o.stretch.to_string(),
        ]
        .to_vec(),
        "walk" => ["walk".into(), mebibytes, threads.to_owned()].to_vec(),
        "node" => {
            let script = workspace::root().join("tools/bench/programs/sleeper.js");
            [script.display().to_string(), mebibytes].to_vec()
        }
        _ => {
            let redis = Redis::start(how, &bench.dir.join("redis"), GETS, coldpress)?;
            let client = BufReader::new(UnixStream::connect(bench.dir.join("redis/redis.sock"))?);
            let mut store = Store { redis, client };
            store.request()?;
            let seen = wakes(o, coldpress, &mut store)?;
            store.redis.finish()?;
            return Ok(seen);
        }
    };
    let node = find_program("node");
    let program = match kind {
        "node" => node.as_deref().context("no node here")?,
        _ => &bench.program,
    };
    let mut program = Program::start(how, program, &arguments)?;
    let seen = wakes(o, coldpress, &mut program)?;
    program.0.finish()?;
    Ok(seen)
}

fn names(options: &Options) -> Result<Vec<String>> {
    if let Some(unknown) = options
        .only
        .iter()
        .find(|only| !CASES.contains(&only.as_str()))
    {
        bail!("there is no case {unknown:?}: {}", CASES.join(", "));
    }
    let wanted =
        |case: &&str| options.only.is_empty() || options.only.iter().any(|only| only == case);
    let names = CASES
        .into_iter()
        .filter(wanted)
        .flat_map(|case| match case {
            "walk" => [1, 2, 4].map(|threads| format!("walk {threads}")).to_vec(),
            case => vec![case.to_owned()],
        });
    Ok(names.collect())
}

/// Runs all of it. Wrong content is an error.
pub fn run(options: &Options) -> Result<u8> {
    let names = names(options)?;
    install::packages(&[install::GCC])?;
    for (case, package) in [("node", NODE), ("redis", install::REDIS)] {
        if names.iter().any(|name| name == case) {
            install::packages(&[package])?;
        }
    }
    let machine = Machine::now();
    let (dir, _guard) = workspace::temporary_dir("wake")?;
    let bench = stepwise::Bench::new(options, "bench_wake", &dir)?;
    let cold_after = format!("{}s", options.cold_after);
    let mut managed = vec!["-q", "--cold-after", &cold_after];
    managed.extend(options.tune.iter().flat_map(|tune| ["--tune", tune]));
    let hows = [How::native(), How::managed(&bench.coldpress, &managed)];
    let mut cases = Vec::new();
    for name in names {
        let mut sides: [Vec<Vec<Wake>>; 2] = Default::default();
        for round in 1..=options.rounds {
            for (n, (how, side)) in hows.iter().zip(&mut sides).enumerate() {
                let coldpress = (n == 1).then_some(bench.coldpress.as_path());
                let seen = one(&bench, &name, how, coldpress)?;
                let times: Vec<_> = seen.iter().map(|wake| time(wake.took_ns)).collect();
                let side_name = ["native", "coldpress"][n];
                eprintln!(
                    "{name}, round {round}/{}: {side_name}: {}",
                    options.rounds,
                    times.join(", ")
                );
                side.push(seen);
            }
        }
        cases.push(Case { name, sides });
    }
    println!("\n{}", table(&cases));
    println!(
        "Medians of {} round(s), each wake after {} s of rest or more, --cold-after {cold_after}. Native programs rest for \
         1 s.\nhot and walk: touches of more than 1 µs; redis: {GETS} GETs, the first of them beside.\n{machine}",
        options.rounds, options.rest,
    );
    if let Some(path) = &options.json {
        let cases: Vec<_> = cases.iter().map(json).collect();
        output::json(path, &json!({ "cases": cases, "machine": machine.json() }))?;
    }
    Ok(0)
}

/// The median of something, of wake `n` of all rounds.
fn middle(rounds: &[Vec<Wake>], n: usize, of: impl Fn(&Wake) -> f64) -> f64 {
    let values: Vec<f64> = rounds
        .iter()
        .filter_map(|wakes| wakes.get(n))
        .map(of)
        .collect();
    median(&values)
}

fn table(cases: &[Case]) -> Table {
    let mut table = Table::new(&[
        "request",
        "wake",
        "held before",
        "native",
        "coldpress",
        "times as long",
        "MiB/s",
        "faults",
        "read ahead",
        "slow p50",
        "p99",
        "first",
    ]);
    for case in cases {
        let [native, managed] = &case.sides;
        for n in 0..managed.first().map_or(0, Vec::len) {
            let at = |of: fn(&Wake) -> f64| middle(managed, n, of);
            let (ours, theirs) = (at(|w| w.took_ns), middle(native, n, |w| w.took_ns));
            let pages = at(|w| w.pages);
            let dash = || "–".to_owned();
            let is_redis = case.name == "redis";
            table.row(&[
                case.name.clone(),
                (n + 1).to_string(),
                mib(at(|w| w.held_bytes as f64) as u64),
                time(theirs),
                time(ours),
                format!("{:.1}", ours / theirs),
                if pages > 0.0 {
                    format!("{:.0}", pages / 256.0 / (ours / 1e9))
                } else {
                    dash()
                },
                thousands(at(|w| w.faults as f64) as u64),
                thousands(at(|w| w.ahead as f64) as u64),
                time(at(|w| w.slow[1])),
                time(at(|w| w.slow[2])),
                if is_redis {
                    time(at(|w| w.slow[0]))
                } else {
                    dash()
                },
            ]);
        }
    }
    table
}

fn json(case: &Case) -> Value {
    let wake = |wake: &Wake| {
        json!({
            "took_ns": wake.took_ns, "held_bytes": wake.held_bytes, "pages": wake.pages, "faults": wake.faults,
            "read_ahead": wake.ahead, "slow_or_first": wake.slow[0], "p50_ns": wake.slow[1], "p99_ns": wake.slow[2],
        })
    };
    let sides = case
        .sides
        .iter()
        .zip(["native", "coldpress"])
        .map(|(rounds, side)| {
            let rounds = rounds.iter().map(|wakes| wakes.iter().map(wake).collect());
            json!({ "side": side, "rounds": rounds.collect::<Vec<Vec<Value>>>() })
        });
    json!({ "case": case.name, "sides": sides.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &[&str]) -> Options {
        let line = ["wake"].iter().chain(line);
        <Line as clap::Parser>::parse_from(line).options
    }

    #[test]
    fn cases_are_named_and_walks_come_by_threads() {
        let all = ["hot", "walk 1", "walk 2", "walk 4", "node", "redis"];
        assert_eq!(names(&options(&[])).unwrap(), all);
        let some = options(&["--only", "redis", "--only", "hot"]);
        assert_eq!(names(&some).unwrap(), ["hot", "redis"]);
        assert!(names(&options(&["--only", "hat"])).is_err());
    }
}
