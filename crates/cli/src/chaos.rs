//! `--chaos`: pages taken out at random, to find out whether a program and the pager bear it.

use crate::refusal::Refusal;
use crate::size::format_count;
use coldpress_interface::config;
use coldpress_interface::statistics::Statistics;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads a seed.
pub fn parse_seed(text: &str) -> Result<u64, String> {
    let seed = text.parse().ok().filter(|&seed| seed > 0);
    seed.ok_or_else(|| format!("cannot read {text:?} as a seed: write a number from 1, as in 42"))
}

/// The seed, if chaos is asked for: by the option, with or without one, or by the environment.
pub fn seed(option: Option<Option<u64>>) -> Result<Option<u64>, Refusal> {
    match option {
        Some(seed) => Ok(Some(seed.unwrap_or_else(any_seed))),
        None => of_environment(std::env::var_os(config::CHAOS)),
    }
}

/// Empty, or 0: no chaos.
fn of_environment(value: Option<OsString>) -> Result<Option<u64>, Refusal> {
    let text = value.unwrap_or_default();
    let text = text.to_string_lossy();
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let seed =
        parse_seed(&text).map_err(|why| Refusal::new(format!("{}: {why}", config::CHAOS)))?;
    Ok(Some(seed))
}

/// Another one each time, short enough to be typed.
fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| u64::from(now.subsec_nanos()));
    now.wrapping_add(u64::from(std::process::id())) % 999_983 + 1
}

/// What is told at the end.
pub fn line(program: &str, seed: u64, statistics: &Statistics) -> String {
    let get = |word: &AtomicU64| word.load(Relaxed);
    let restores = get(&statistics.decompressions)
        + get(&statistics.faults_copied)
        + get(&statistics.faults_same_filled);
    format!(
        "{program}: chaos with seed {seed}: {} evictions, {} pages given back, each page that was taken at all was \
         taken {} times or more; again with --chaos={seed}",
        format_count(get(&statistics.evictions)),
        format_count(restores),
        format_count(get(&statistics.least_evictions_of_a_page)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: `COLDPRESS_CHAOS=yes` was no chaos, and nothing was said.
    #[test]
    fn the_environment_asks_for_chaos_or_is_refused() {
        let seed = |text: &str| of_environment(Some(text.into()));
        assert_eq!(of_environment(None), Ok(None));
        assert_eq!(seed(""), Ok(None));
        assert_eq!(seed("0"), Ok(None));
        assert_eq!(seed("42"), Ok(Some(42)));
        for wrong in ["yes", "-1", "4 2"] {
            let refusal = seed(wrong).expect_err(wrong).to_string();
            assert!(
                refusal.contains("COLDPRESS_CHAOS: cannot read"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn seeds_are_read_or_drawn() {
        assert_eq!(parse_seed("42"), Ok(42));
        assert!(parse_seed("0").is_err() && parse_seed("x").is_err());
        assert_eq!(seed(Some(Some(7))), Ok(Some(7)));
        let drawn = seed(Some(None)).ok().flatten().expect("a seed");
        assert!((1..1_000_000).contains(&drawn));
    }

    #[test]
    fn the_line_tells_seed_and_counts() {
        let statistics = Statistics::new();
        statistics.evictions.store(12_345, Relaxed);
        statistics.decompressions.store(1_000, Relaxed);
        statistics.faults_copied.store(200, Relaxed);
        statistics.least_evictions_of_a_page.store(11, Relaxed);
        assert_eq!(
            line("p", 7, &statistics),
            "p: chaos with seed 7: 12,345 evictions, 1,200 pages given back, each page that was taken at all was taken \
             11 times or more; again with --chaos=7"
        );
    }
}
