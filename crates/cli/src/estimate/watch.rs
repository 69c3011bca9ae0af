//! Watching processes for a while: which of their pages are touched, by which means that can be known, and what they hold.
//!
//! ```text
//!  DAMON       survey, sample ─▶ frames ─▶ DAMON, a sample a second … ─▶ idle seconds of each page ─┐
//!  clear_refs  clear ─▶ read, read, read … ─▶ bytes touched of each mapping within each time ──────┤
//!  none        wait for nothing ──────────────────────────────────────────────────────────────────┤
//!                                             survey (again), read the sampled pages, once ◀──────┘
//! ```
//!
//! Content is read last, since reading a page counts as a touch. It is read once.

use crate::estimate::by_page::by_page;
use crate::estimate::referenced::{self, Reading};
use crate::estimate::seen::{Seen, Subject, Touched, pause, times};
use crate::estimate::survey::Survey;
use crate::process;
use crate::progress::Bar;
use crate::refusal::Refusal;
use std::time::{Duration, Instant};

const UNWANTED: &str = "it was not to be looked for (--ages none)";

/// By which means ages are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Means {
    /// clear-refs
    Auto,
    /// The kernel's access monitor; needs root, and that nobody else uses it
    Damon,
    /// The kernel's notes of what was touched, which are cleared once
    ClearRefs,
    /// Not at all
    None,
}

/// Watches processes side by side.
pub fn watch(
    subjects: &[Subject],
    means: Means,
    watch: Duration,
    bar: &Bar,
) -> Vec<Result<Seen, Refusal>> {
    match means {
        Means::Auto | Means::ClearRefs => by_mapping(subjects, watch, bar),
        Means::Damon => by_page(subjects, watch, bar).unwrap_or_else(|why| {
            let refusal = || {
                Refusal::new(format!("cannot tell which pages are touched: {why}"))
                    .mend("Or leave it to another means: --ages clear-refs")
            };
            subjects.iter().map(|_| Err(refusal())).collect()
        }),
        Means::None => {
            let seen = subjects.iter().map(|subject| {
                Ok(Seen {
                    survey: Survey::take(subject.pid, &subject.process)?,
                    watched_s: 0.0,
                    cpu_share: None,
                    times: Vec::new(),
                    touched: Touched::Unknown(UNWANTED.to_owned()),
                })
            });
            seen.collect()
        }
    }
}

/// The readings of one process.
pub struct Readings {
    times: Vec<Duration>,
    began: Instant,
    /// CPU time that the process had used by then, in seconds.
    cpu_before_s: Option<f64>,
    /// What each mapping held by then.
    before: Reading,
    taken: Vec<(f64, Reading)>,
    /// Why there are none.
    why: Option<String>,
}

impl Readings {
    /// Clears the notes of a process, unless that is not wanted, to read them at the times of so long a watch.
    pub fn begin(pid: u32, watch: Duration, means: Means) -> Self {
        let cleared = || referenced::may_clear(pid).and_then(|()| referenced::clear(pid));
        let why = match means {
            Means::None => Some(UNWANTED.to_owned()),
            _ => cleared().err().map(|error| {
                format!("/proc/{pid}/clear_refs: {error}; it takes the process's user, or root")
            }),
        };
        Self {
            times: times(watch),
            began: Instant::now(),
            cpu_before_s: process::cpu_time_s(pid),
            before: referenced::read(pid).unwrap_or_default(),
            taken: Vec::new(),
            why,
        }
    }

    /// How long until the next reading is due; `None`: all were taken.
    pub fn next(&self) -> Option<Duration> {
        let next = self.times.get(self.taken.len())?;
        Some(next.saturating_sub(self.began.elapsed()))
    }

    /// Takes a reading, if one is due.
    pub fn look(&mut self, pid: u32) {
        if self.next() == Some(Duration::ZERO) {
            let reading = referenced::read(pid).unwrap_or_default();
            self.taken
                .push((self.began.elapsed().as_secs_f64(), reading));
        }
    }

    /// What was seen, with what there is at the end.
    pub fn finish(self, subject: &Subject) -> Result<Seen, Refusal> {
        let survey = Survey::take(subject.pid, &subject.process)?;
        let watched_s = self.began.elapsed().as_secs_f64();
        let used_s = self.cpu_before_s.zip(process::cpu_time_s(subject.pid));
        let cpu_share = used_s.map(|(before, now)| (now - before).max(0.0) / watched_s.max(0.01));
        let (times, after) = self.taken.into_iter().unzip();
        Ok(match self.why {
            Some(why) => Seen {
                survey,
                watched_s: 0.0,
                cpu_share: None,
                times: Vec::new(),
                touched: Touched::Unknown(why),
            },
            None => Seen {
                survey,
                watched_s,
                cpu_share,
                times,
                touched: Touched::ByMapping {
                    before: self.before,
                    after,
                },
            },
        })
    }
}

fn by_mapping(subjects: &[Subject], watch: Duration, bar: &Bar) -> Vec<Result<Seen, Refusal>> {
    bar.begin("watching", watch.as_millis() as u64);
    let mut all: Vec<Readings> = subjects
        .iter()
        .map(|subject| Readings::begin(subject.pid, watch, Means::ClearRefs))
        .collect();
    // Where nothing can be known of any of them nothing is waited for.
    let is_seen = all.iter().any(|readings| readings.why.is_none());
    while is_seen && let Some(next) = all.iter().filter_map(Readings::next).min() {
        pause(next, bar);
        for (readings, subject) in all.iter_mut().zip(subjects) {
            readings.look(subject.pid);
        }
        // What is waited for may have ended.
        if subjects
            .iter()
            .all(|subject| subject.process.check_identity().is_err())
        {
            break;
        }
    }
    let finished = all.into_iter().zip(subjects);
    finished
        .map(|(readings, subject)| readings.finish(subject))
        .collect()
}
