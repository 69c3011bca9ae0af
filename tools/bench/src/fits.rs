//! What a program loses whose memory fits its budget: native and managed side by side, in turns.
//!
//! Two things spoil such a comparison. The speed of a machine that others share changes within seconds, so
//! both processes live at the same time and take turns of a fraction of a second (A B, B A); the managed one
//! is stopped (SIGSTOP) while it is not its turn, its pager with it. And which memory a process got decides
//! about its speed as long as it lives, so both are started anew every round, each first in every other one.
//! A round's ratio is the median of its pairs of turns; the loss is the median of the rounds' ratios, and the
//! interval beside it that of the sign test: it has no assumption but that rounds are independent.

use crate::stepwise::{How, Stepwise, number};
use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::figures::median;
use coldpress_harness::install;
use coldpress_harness::text::{Table, mib, thousands};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the pager may cost in throughput.
const LOSS_SHARE: f64 = 0.02;

/// How often both are started, and how often they take turns each time.
pub struct Often {
    pub rounds: u64,
    pub turns: u64,
}

/// A process that does its work in turns.
pub trait Fitting {
    /// One turn: work a second.
    fn turn(&mut self) -> Result<f64>;
    /// The process that works.
    fn pid(&self) -> u32;
    /// Pages that left so far; 0 natively.
    fn evictions(&self) -> Result<u64>;
    /// Lets it end.
    fn finish(self) -> Result<()>;
}

/// `bench_idle`, which touches its memory at random.
pub struct Touching<'a> {
    program: Stepwise,
    limit: Duration,
    coldpress: Option<&'a Path>,
}

impl<'a> Touching<'a> {
    /// Starts it and waits until its memory is full. Its arguments are MiB, seconds of a turn, threads.
    pub fn start(
        how: &How,
        program: &Path,
        arguments: &[String; 3],
        coldpress: Option<&'a Path>,
    ) -> Result<Self> {
        let seconds: f64 = arguments[1].parse()?;
        let mut program = Stepwise::start(how, program, arguments)?;
        program.go()?;
        program.next("filled", Duration::from_secs(120))?;
        Ok(Self {
            program,
            limit: Duration::from_secs_f64(seconds + 120.0),
            coldpress,
        })
    }
}

impl Fitting for Touching<'_> {
    fn turn(&mut self) -> Result<f64> {
        self.program.go()?;
        let touched = self.program.next("touched", self.limit)?;
        Ok(number(&touched, "touches")? / number(&touched, "seconds")?)
    }

    fn pid(&self) -> u32 {
        self.program.pid
    }

    fn evictions(&self) -> Result<u64> {
        evictions(self.program.pid, self.coldpress)
    }

    fn finish(self) -> Result<()> {
        self.program.finish().map(drop)
    }
}

/// Redis filled with values, which is asked for them at random.
pub struct Redis<'a> {
    server: Running,
    socket: PathBuf,
    pid: u32,
    gets: u64,
    coldpress: Option<&'a Path>,
}

impl<'a> Redis<'a> {
    /// Starts and fills it. Its files go to `dir`.
    pub fn start(how: &How, dir: &Path, gets: u64, coldpress: Option<&'a Path>) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let (socket, pid_file) = (dir.join("redis.sock"), dir.join("redis.pid"));
        for file in [&socket, &pid_file] {
            let _ = fs::remove_file(file);
        }
        let server = install::find_program("redis-server").context("no redis-server")?;
        let mut command = how.command(&server);
        command
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"])
            .arg(dir)
            .arg("--pidfile")
            .arg(&pid_file)
            .args(["--daemonize", "no", "--unixsocket"])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let server = Running::start(&mut command, "redis-server")?;
        let until = Instant::now() + Duration::from_secs(30);
        let pid = loop {
            if Instant::now() > until {
                bail!("redis-server does not answer");
            }
            std::thread::sleep(Duration::from_millis(100));
            let text = fs::read_to_string(&pid_file).unwrap_or_default();
            if let Some(pid) = text.trim().parse().ok().filter(|_| socket.exists()) {
                break pid;
            }
        };
        server.program(pid)?;
        let redis = Self {
            server,
            socket,
            pid,
            gets,
            coldpress,
        };
        redis.benchmark(&["-t", "set", "-n", "400000"])?;
        Ok(redis)
    }

    fn benchmark(&self, arguments: &[&str]) -> Result<f64> {
        let output = Command::new("redis-benchmark")
            .arg("-s")
            .arg(&self.socket)
            .args(["--csv", "-r", "200000", "-d", "512", "-P", "16", "-c", "8"])
            .args(arguments)
            .output()
            .context("cannot start redis-benchmark")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = text.lines().last().unwrap_or_default();
        let rate = last.split(',').nth(1).map(|field| field.trim_matches('"'));
        rate.and_then(|rate| rate.parse().ok())
            .with_context(|| format!("redis-benchmark printed {text:?}"))
    }
}

impl Fitting for Redis<'_> {
    fn turn(&mut self) -> Result<f64> {
        self.benchmark(&["-t", "get", "-n", &self.gets.to_string()])
    }

    fn pid(&self) -> u32 {
        self.pid
    }

    fn evictions(&self) -> Result<u64> {
        evictions(self.pid, self.coldpress)
    }

    fn finish(self) -> Result<()> {
        let told = Command::new("redis-cli")
            .arg("-s")
            .arg(&self.socket)
            .args(["shutdown", "nosave"])
            .stdout(Stdio::null())
            .status();
        told.context("cannot start redis-cli")?;
        self.server.wait_for(Duration::from_secs(30))?;
        Ok(())
    }
}

fn evictions(pid: u32, coldpress: Option<&Path>) -> Result<u64> {
    let Some(coldpress) = coldpress else {
        return Ok(0);
    };
    let statistics = coldpress_harness::managed::Statistics::live(coldpress, pid)?;
    Ok(statistics.get("evictions").unwrap_or(0))
}

/// Huge pages of a process, in bytes.
fn huge_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// A process of ours that stands still until this is dropped.
struct Stopped(libc::pid_t);

impl Stopped {
    fn new(pid: u32) -> Self {
        let pid = pid as libc::pid_t;
        // SAFETY: a signal to a process that we started, and that has not ended: it waits for us.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::kill(self.0, libc::SIGCONT) };
    }
}

/// What one round brought.
struct Round {
    native: Vec<f64>,
    managed: Vec<f64>,
    /// Managed, as a share of native: the median of the pairs.
    ratio: f64,
    evictions: u64,
    /// Huge pages: native, managed.
    huge_bytes: [u64; 2],
}

fn round<F: Fitting>(number: u64, turns: u64, start: &impl Fn(bool) -> Result<F>) -> Result<Round> {
    let (mut native, mut managed);
    if number.is_multiple_of(2) {
        managed = start(true)?;
        native = start(false)?;
    } else {
        native = start(false)?;
        managed = start(true)?;
    }
    let mut rates = [Vec::new(), Vec::new()];
    // The first pair warms up.
    for turn in 0..=turns {
        for is_managed in [turn % 2 == 1, turn % 2 == 0] {
            let rate = match is_managed {
                true => managed.turn()?,
                false => {
                    let _stopped = Stopped::new(managed.pid());
                    native.turn()?
                }
            };
            if turn > 0 {
                rates[usize::from(is_managed)].push(rate);
            }
        }
    }
    let evictions = managed.evictions()?;
    let huge_bytes = [huge_bytes(native.pid()), huge_bytes(managed.pid())];
    native.finish()?;
    managed.finish()?;
    let [native, managed] = rates;
    let pairs: Vec<_> = managed.iter().zip(&native).map(|(a, b)| a / b).collect();
    Ok(Round {
        ratio: median(&pairs),
        native,
        managed,
        evictions,
        huge_bytes,
    })
}

/// The table that [`in_turns`] writes to.
pub fn table() -> Table {
    Table::new(&[
        "working set fits",
        "native/s",
        "managed/s",
        "spread",
        "evictions",
        "huge pages",
        "loss",
        "interval",
        "kept",
    ])
}

/// How the table is to be read.
pub fn legend(often: &Often) -> String {
    format!(
        "{} rounds of two new processes, {} turns each, A B, B A. Loss: median of the rounds, each the median of its \
         pairs;\ninterval: of that median, by the sign test, {}; spread: highest less lowest of the rounds.",
        often.rounds,
        often.turns,
        match sign_test_rank(often.rounds as usize) {
            Some(_) => "95 %",
            None => "too few rounds for 95 %: from the lowest to the highest",
        }
    )
}

/// Native and managed in turns.
pub fn in_turns<F: Fitting>(
    name: &str,
    often: &Often,
    start: impl Fn(bool) -> Result<F>,
    table: &mut Table,
) -> Result<Value> {
    let mut rounds = Vec::new();
    for number in 1..=often.rounds {
        let round = round(number, often.turns, &start)?;
        eprintln!(
            "{name} {number}/{}: native {}/s, managed {}/s, loss {:+.2} %",
            often.rounds,
            thousands(median(&round.native) as u64),
            thousands(median(&round.managed) as u64),
            100.0 * (1.0 - round.ratio),
        );
        rounds.push(round);
    }
    let rates = |of: fn(&Round) -> &Vec<f64>| -> Vec<f64> {
        rounds.iter().map(|round| median(of(round))).collect()
    };
    let (native, managed) = (rates(|round| &round.native), rates(|round| &round.managed));
    let losses: Vec<_> = rounds.iter().map(|round| 1.0 - round.ratio).collect();
    let (loss, (least, most)) = (median(&losses), interval(&losses));
    let evictions = rounds.iter().map(|round| round.evictions).max();
    let huge = [0, 1].map(|side| rounds.iter().map(|round| round.huge_bytes[side]).max());
    let huge = huge.map(Option::unwrap_or_default);
    table.row(&[
        name.to_owned(),
        thousands(median(&native) as u64),
        thousands(median(&managed) as u64),
        format!(
            "{:.1} %, {:.1} %",
            100.0 * spread(&native),
            100.0 * spread(&managed)
        ),
        thousands(evictions.unwrap_or(0)),
        format!("{}, {}", mib(huge[0]), mib(huge[1])),
        format!("{:+.2} %", 100.0 * loss),
        format!("{:+.2} to {:+.2} %", 100.0 * least, 100.0 * most),
        if loss <= LOSS_SHARE { "yes" } else { "NO" }.to_owned(),
    ]);
    let rounds = rounds.iter().map(|round| {
        json!({
            "native_rates": round.native, "managed_rates": round.managed, "ratio": round.ratio,
        })
    });
    Ok(json!({
        "workload": name, "rounds": rounds.collect::<Vec<_>>(), "loss": loss,
        "loss_interval": [least, most], "evictions": evictions, "native_huge_bytes": huge[0],
        "managed_huge_bytes": huge[1], "kept": loss <= LOSS_SHARE,
    }))
}

fn spread(rates: &[f64]) -> f64 {
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    (most - least) / median(rates)
}

/// How many of `count` sorted figures can be left out at each end so that the rest holds the median of all that there
/// could be, in 95 % of cases; `None`: not even all of them do.
fn sign_test_rank(count: usize) -> Option<usize> {
    // P(at most k of n are below the median) = sum of C(n, i) / 2^n.
    let (mut choose, mut tail, mut rank) = (1.0, 0.0, None);
    for left_out in 0..count {
        tail += choose / 2f64.powi(count as i32);
        if 2.0 * tail > 0.05 {
            break;
        }
        rank = Some(left_out);
        choose *= (count - left_out) as f64 / (left_out + 1) as f64;
    }
    rank
}

/// The interval of the median of some figures, of which there is one at least.
fn interval(figures: &[f64]) -> (f64, f64) {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = sign_test_rank(sorted.len()).unwrap_or(0);
    (sorted[rank], sorted[sorted.len() - 1 - rank])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // Tables of the binomial distribution with p = 1/2.
        assert_eq!(sign_test_rank(5), None);
        assert_eq!(sign_test_rank(6), Some(0));
        assert_eq!(sign_test_rank(9), Some(1));
        assert_eq!(sign_test_rank(12), Some(2));
        assert_eq!(sign_test_rank(20), Some(5));
        let figures = [9.0, 1.0, 2.0, 8.0, 3.0, 7.0, 4.0, 6.0, 5.0];
        assert_eq!(interval(&figures), (2.0, 8.0));
        assert_eq!(interval(&[3.0, 1.0]), (1.0, 3.0));
    }

    /// Works at a rate that falls every turn, a tenth slower where it is managed.
    struct Falling {
        rate: f64,
        child: std::process::Child,
        managed: bool,
    }

    impl Fitting for Falling {
        fn turn(&mut self) -> Result<f64> {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
            let is_stopped = stat.contains(") T ");
            assert!(!(self.managed && is_stopped), "it is not its turn");
            self.rate *= 0.99;
            Ok(self.rate)
        }

        fn pid(&self) -> u32 {
            self.child.id()
        }

        fn evictions(&self) -> Result<u64> {
            Ok(if self.managed { 7 } else { 0 })
        }

        fn finish(mut self) -> Result<()> {
            self.child.kill()?;
            self.child.wait()?;
            Ok(())
        }
    }

    #[test]
    fn what_changes_with_time_is_no_loss() {
        let start = |managed| {
            let child = Command::new("sleep").arg("60").spawn()?;
            let rate = if managed { 90.0 } else { 100.0 };
            Ok(Falling {
                rate,
                child,
                managed,
            })
        };
        let often = Often {
            rounds: 2,
            turns: 10,
        };
        let figures = in_turns("falling", &often, start, &mut table()).unwrap();
        let loss = figures["loss"].as_f64().unwrap();
        assert!((loss - 0.1).abs() < 1e-9, "{loss}");
        assert_eq!(figures["evictions"], 7);
        assert_eq!(figures["kept"], false);
    }
}
