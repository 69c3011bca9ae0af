//! Ages of single pages, by DAMON: for root, where nobody else uses it.
//!
//! Of all processes together [`PAGES`] pages are asked for, each by the frame that it is in: a sample of what would be managed.
//! DAMON looks once a second, and says at the end for how many looks each frame was left alone. A page that is in another
//! frame by then, or whose frame is on no list of the kernel's, says nothing.

use crate::damon::Damon;
use crate::estimate::seen::{Seen, Subject, Touched, pause, times};
use crate::estimate::survey::{Sampled, Survey};
use crate::inactive;
use crate::progress::Bar;
use crate::refusal::Refusal;
use std::collections::HashMap;
use std::fs::File;
use std::time::{Duration, Instant};

/// Pages whose ages DAMON is asked for, of all processes together: each costs it a fraction of a millisecond.
const PAGES: u64 = 8_192;
/// How often DAMON looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// What DAMON is asked of one process.
struct Asked {
    sample: Vec<Sampled>,
    frames: Vec<u64>,
}

/// By DAMON; why it does not tell, where it does not.
pub fn by_page(
    subjects: &[Subject],
    watch: Duration,
    bar: &Bar,
) -> Result<Vec<Result<Seen, Refusal>>, String> {
    let flags =
        File::open("/proc/kpageflags").map_err(|error| format!("/proc/kpageflags: {error}"))?;
    let each = PAGES / (subjects.len() as u64).max(1);
    let listed = |frame: u64| frame != 0 && inactive::is_listed(&flags, frame);
    let ask = |subject: &Subject| -> Result<Asked, Refusal> {
        let survey = Survey::take(subject.pid, &subject.process)?;
        let sample = survey.sample(each);
        let addresses: Vec<u64> = sample.iter().map(|page| page.address).collect();
        let mut frames = subject.process.frames(&addresses)?;
        frames.iter_mut().for_each(|frame| {
            if !listed(*frame) {
                *frame = 0;
            }
        });
        Ok(Asked { sample, frames })
    };
    let asked: Vec<Result<Asked, Refusal>> = subjects.iter().map(ask).collect();
    let all = asked.iter().flatten().flat_map(|asked| &asked.frames);
    let frames: Vec<u64> = all.copied().filter(|frame| *frame != 0).collect();
    if frames.is_empty() {
        return Err("physical frames are shown to root only".to_owned());
    }
    bar.begin("asking DAMON", frames.len() as u64);
    let interval = INTERVAL.min(watch);
    let damon = Damon::start(&frames, interval, &mut || bar.advance(1));
    let damon = damon.map_err(|error| error.to_string())?;
    bar.begin("watching", watch.as_millis() as u64);
    let began = Instant::now();
    // The answer comes when the interval is over in which it is asked for.
    pause(watch.saturating_sub(interval / 2), bar);
    let idle = damon.untouched().map_err(|error| error.to_string())?;
    let watched_s = began.elapsed().as_secs_f64();
    drop(damon);
    let looks = Looks {
        idle,
        interval,
        watched_s,
    };
    let finished = asked.into_iter().zip(subjects);
    Ok(finished
        .map(|(asked, subject)| looks.of(subject, asked?))
        .collect())
}

/// What DAMON has answered.
struct Looks {
    /// For how many looks frames were left alone since one that was different.
    idle: HashMap<u64, u64>,
    interval: Duration,
    watched_s: f64,
}

impl Looks {
    /// What was seen of a process.
    fn of(&self, subject: &Subject, asked: Asked) -> Result<Seen, Refusal> {
        let addresses: Vec<u64> = asked.sample.iter().map(|page| page.address).collect();
        let now = subject.process.frames(&addresses)?;
        let same = asked.frames.iter().zip(&now).zip(&addresses);
        let ages = same
            .filter(|((before, now), _)| before == now && **before != 0)
            .map(|((frame, _), address)| (*address, self.age_s(*frame)));
        let told = times(Duration::from_secs_f64(self.watched_s));
        let told = told.iter().map(Duration::as_secs_f64);
        let from = self.interval.as_secs_f64();
        Ok(Seen {
            touched: Touched::ByPage(ages.collect()),
            survey: Survey::take(subject.pid, &subject.process)?,
            watched_s: self.watched_s,
            cpu_share: None,
            times: told.filter(|time| *time >= from).collect(),
        })
    }

    /// For how long a frame was left alone; `None`: all the while.
    fn age_s(&self, frame: u64) -> Option<f64> {
        let interval_s = self.interval.as_secs_f64();
        let whole = (self.watched_s / interval_s) as u64;
        match self.idle.get(&frame) {
            None => Some(0.0),
            Some(looks) if looks + 1 >= whole => None,
            Some(looks) => Some((looks + 1) as f64 * interval_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_seconds() {
        let looks = Looks {
            idle: HashMap::from([(1, 0), (2, 3), (3, 9), (4, 10)]),
            interval: INTERVAL,
            watched_s: 10.2,
        };
        assert_eq!(looks.age_s(7), Some(0.0), "touched at the last look");
        assert_eq!(looks.age_s(1), Some(1.0));
        assert_eq!(looks.age_s(2), Some(4.0));
        assert_eq!((looks.age_s(3), looks.age_s(4)), (None, None));
    }
}
