//! `cargo xtask verify`: a program of ours that knows what each of its pages must hold, under constant
//! eviction, until so many evict and restore cycles were verified.
//!
//! The program is `crates/promises/programs/verify.c`, the rounds are those of
//! `coldpress_promises::verify`, which the tests run too, for a million cycles. A page that is
//! wrong, a thread that is stuck, a program that does not end: each stops the task with a report,
//! and with exit status 1. `COLDPRESS_BIN` names another command than the one that is built.
//!
//! With `--disk` it is a disk instead, and fio that knows its blocks: [`crate::disk::verify`].

use crate::disk;
use anyhow::{Result, bail};
use coldpress_harness::progress::Progress;
use coldpress_harness::text::{Table, thousands};
use coldpress_harness::{install, workspace};
use coldpress_promises::verify::{Figures, ROUNDS, Round};
use coldpress_promises::{Workplace, skip};
use std::path::Path;
use std::time::{Duration, Instant};

/// Cycles where neither these nor a time are asked for: those of the tests.
const CYCLES: u64 = 1_000_000;

/// A round is as long as this at most, so that all kinds of weather take turns.
const LONGEST_SECONDS: u64 = 20;

/// And at least as long as this: it begins with filling memory.
const SHORTEST_SECONDS: u64 = 3;

/// Cycles a second that are reckoned with before the first round has told.
const RECKONED_RATE: u64 = 30_000;

/// Options of the verification.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Verify at least this many evict and restore cycles [default: 1000000, or as many as come
    /// in the time given]
    #[arg(long)]
    cycles: Option<u64>,
    /// Seed of the first round; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this many seconds, however many cycles there were
    #[arg(long)]
    seconds: Option<u64>,
    /// Instead: blocks of a disk that is served, with a CRC each, behind --writeback and --backing; the
    /// server of the second is killed again and again
    #[arg(long, conflicts_with_all = ["cycles", "seconds"])]
    disk: bool,
    /// With --disk: minutes, of each of the two
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// With --disk: one of the two alone
    #[arg(long, requires = "disk")]
    only: Option<disk::verify::Behind>,
}

/// All rounds of a kind.
#[derive(Default)]
struct Sum {
    rounds: u64,
    figures: Figures,
}

/// Runs rounds until there were enough cycles, or time is over; 1 if something was wrong.
pub fn run(options: &Options) -> Result<u8> {
    if options.disk {
        let time = Duration::from_secs(options.minutes * 60);
        return disk::verify::run(time, options.seed, options.only);
    }
    if !skip::is_root() {
        bail!(
            "verifying needs the tier in which faults of the kernel are served: run it as root, or see coldpress doctor"
        );
    }
    install::packages(&[install::GCC])?;
    let binary = workspace::coldpress()?;
    let place = Workplace::new("verify");
    let program = place.compile("verify");

    let wanted = match (options.cycles, options.seconds) {
        (Some(cycles), _) => cycles,
        (None, Some(_)) => u64::MAX,
        (None, None) => CYCLES,
    };
    let time = options.seconds.map_or(Duration::MAX, Duration::from_secs);
    let begun = Instant::now();
    let mut sums: Vec<Sum> = ROUNDS.iter().map(|_| Sum::default()).collect();
    let mut total = Figures::default();
    let mut wrong = None;
    for (number, seed) in (0..).zip(options.seed..) {
        let left = time.saturating_sub(begun.elapsed());
        if total.cycles >= wanted || left.is_zero() {
            break;
        }
        let (kind, rounds) = (number % ROUNDS.len(), number / ROUNDS.len());
        let seconds = seconds_of(&total, wanted, left);
        match round(&ROUNDS[kind], &binary, (&place, &program), seed, seconds) {
            Ok(figures) => {
                total += figures;
                sums[kind].figures += figures;
                sums[kind].rounds = rounds as u64 + 1;
                tell(number as u64 + 1, &total, wanted, begun.elapsed());
            }
            Err(report) => {
                wrong = Some(report);
                break;
            }
        }
    }
    print!("{}", table(&sums, &total));
    let took = begun.elapsed();
    match wrong {
        None => {
            println!(
                "{} cycles verified in {:.0} s, 0 mismatches",
                thousands(total.cycles),
                took.as_secs_f64()
            );
            Ok(0)
        }
        Some(report) => {
            println!("WRONG after {} cycles\n{report}", thousands(total.cycles));
            Ok(1)
        }
    }
}

/// As long as the cycles need that are missing, spread over all kinds of rounds.
fn seconds_of(total: &Figures, wanted: u64, left: Duration) -> u64 {
    let rate = match total.wall.as_secs() {
        0 => RECKONED_RATE,
        seconds => (total.cycles / seconds).max(1),
    };
    let missing = wanted.saturating_sub(total.cycles) / rate / (ROUNDS.len() as u64 / 2);
    missing
        .clamp(SHORTEST_SECONDS, LONGEST_SECONDS)
        .min(left.as_secs().max(1))
}

fn round(
    round: &Round,
    binary: &Path,
    (place, program): (&Workplace, &Path),
    seed: u64,
    seconds: u64,
) -> std::result::Result<Figures, String> {
    let progress = Progress::begin(format!("{}, seed {seed}, {seconds} s", round.name));
    let run = || round.run(place, binary, program, seed, seconds);
    // A program that does not end is a panic, with what each of its threads waits for.
    let outcome = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.unwrap_or_else(|| "a panic".into()))
    });
    match &outcome {
        Ok(figures) => progress.finish(&format!("{} cycles", thousands(figures.cycles))),
        Err(_) => progress.finish("WRONG"),
    }
    outcome
}

/// One line a round on how far it is.
fn tell(rounds: u64, total: &Figures, wanted: u64, elapsed: Duration) {
    let rate = total.cycles as f64 / elapsed.as_secs_f64();
    let mut line = format!(
        "{rounds} rounds, {} cycles, {} pages verified, {} a second, 0 mismatches",
        thousands(total.cycles),
        thousands(total.verified),
        thousands(rate as u64),
    );
    if wanted < u64::MAX {
        let left = wanted.saturating_sub(total.cycles) as f64 / rate;
        line += &format!(", {:.0} min left", (left / 60.0).ceil());
    }
    eprintln!("{line}");
}

fn table(sums: &[Sum], total: &Figures) -> Table {
    let mut table = Table::new(&[
        "round", "rounds", "cycles", "a second", "verified", "written", "children", "moves",
        "threads", "signals", "calls", "cold",
    ]);
    let mut row = |name: &str, rounds: u64, f: &Figures| {
        let rate = f.cycles as f64 / f.wall.as_secs_f64().max(1e-9);
        let numbers = [
            rounds,
            f.cycles,
            rate as u64,
            f.verified,
            f.writes,
            f.forks,
            f.moves,
            f.threads,
            f.signals,
            f.calls,
            f.cold,
        ];
        let mut cells = vec![name.to_owned()];
        cells.extend(numbers.map(thousands));
        table.row(&cells);
    };
    for (round, sum) in ROUNDS.iter().zip(sums).filter(|(_, sum)| sum.rounds > 0) {
        row(round.name, sum.rounds, &sum.figures);
    }
    row("all", sums.iter().map(|sum| sum.rounds).sum(), total);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_as_long_as_what_is_missing_asks_for() {
        let none = Figures::default();
        assert_eq!(seconds_of(&none, 1_000, Duration::MAX), SHORTEST_SECONDS);
        assert_eq!(
            seconds_of(&none, 100_000_000, Duration::MAX),
            LONGEST_SECONDS
        );
        assert_eq!(seconds_of(&none, u64::MAX, Duration::from_secs(2)), 2);
        let fast = Figures {
            cycles: 1_000_000,
            wall: Duration::from_secs(10),
            ..none
        };
        assert_eq!(seconds_of(&fast, 5_000_000, Duration::MAX), 10);
    }

    #[test]
    fn the_table_has_the_kinds_that_were_run_and_their_sum() {
        let mut sums: Vec<Sum> = ROUNDS.iter().map(|_| Sum::default()).collect();
        let figures = Figures {
            cycles: 1_234_567,
            wall: Duration::from_secs(10),
            ..Figures::default()
        };
        sums[1] = Sum { rounds: 2, figures };
        let text = table(&sums, &figures).to_string();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("1 234 567") && text.contains("123 456"));
        assert!(text.contains(ROUNDS[1].name) && !text.contains(ROUNDS[5].name));
    }
}
