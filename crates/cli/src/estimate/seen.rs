//! What is watched and what was seen: a process, how much of it was touched within which time.

use crate::anonymous_pages::{AnonymousPages, Purpose};
use crate::estimate::referenced::Reading;
use crate::estimate::survey::Survey;
use crate::process;
use crate::progress::Bar;
use crate::refusal::Refusal;
use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

const PURPOSE: Purpose = Purpose {
    mend: "estimate PID",
    ended: "ended while it was watched: nothing can be said of it",
};

/// Times within which touches are told, in milliseconds, as far as they are watched.
const TIMES_MS: [u64; 12] = [
    250, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000,
];

/// A process to be watched.
pub struct Subject {
    /// Its number.
    pub pid: u32,
    /// What it runs.
    pub name: String,
    /// Its memory.
    pub process: AnonymousPages,
}

impl Subject {
    /// Opens a process's memory.
    pub fn open(pid: u32) -> Result<Self, Refusal> {
        Ok(Self {
            pid,
            name: process::name(pid),
            process: AnonymousPages::open(pid, PURPOSE)?,
        })
    }
}

/// What is known of touches.
#[derive(Clone, Debug)]
pub enum Touched {
    /// Nothing, and why.
    Unknown(String),
    /// What was touched of each mapping within each time.
    ByMapping {
        /// What there was when the notes were cleared.
        before: Reading,
        /// One for each time.
        after: Vec<Reading>,
    },
    /// For how many seconds single pages were left alone at the end; `None`: all the while.
    ByPage(HashMap<u64, Option<f64>>),
}

/// What was seen of a process.
#[derive(Clone, Debug)]
pub struct Seen {
    /// At the end.
    pub survey: Survey,
    /// How long was looked, in seconds.
    pub watched_s: f64,
    /// The share of a CPU that it used meanwhile, if that is known.
    pub cpu_share: Option<f64>,
    /// The times of [`Touched::ByMapping`], or those to be told of [`Touched::ByPage`], in seconds.
    pub times: Vec<f64>,
    /// What was touched.
    pub touched: Touched,
}

/// The times of a watch that is so long, its whole length the last.
pub fn times(watch: Duration) -> Vec<Duration> {
    let all = TIMES_MS.into_iter().map(Duration::from_millis);
    let mut times: Vec<Duration> = all.filter(|time| *time < watch.mul_f64(0.9)).collect();
    times.push(watch);
    times
}

/// Waits, and moves the bar.
pub fn pause(time: Duration, bar: &Bar) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let step = left.min(Duration::from_millis(100));
        thread::sleep(step);
        bar.advance(step.as_millis() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_ends_with_its_whole_length() {
        let times = |s: f64| -> Vec<u64> {
            let all = super::times(Duration::from_secs_f64(s));
            all.iter().map(|time| time.as_millis() as u64).collect()
        };
        assert_eq!(times(10.0), [250, 500, 1_000, 2_000, 5_000, 10_000]);
        assert_eq!(times(0.1), [100]);
        assert_eq!(times(10.5).last(), Some(&10_500));
    }
}
