//! What `/proc` says about a process: identity, resident memory, samples of it over time.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A process that cannot be mistaken for a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    start_time_ticks: u64,
}

impl Identity {
    /// The process that has `pid` now.
    pub fn of(pid: u32) -> Result<Identity> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .with_context(|| format!("process {pid} is gone"))?;
        // The name in parentheses may hold anything; the 22nd field is the 20th behind it.
        let start_time_ticks = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(19))
            .and_then(|field| field.parse().ok())
            .with_context(|| format!("/proc/{pid}/stat has no start time"))?;
        Ok(Identity {
            pid,
            start_time_ticks,
        })
    }

    /// Sends SIGKILL, unless the process is gone.
    pub fn kill(self) {
        if Identity::of(self.pid).is_ok_and(|now| now == self) {
            // SAFETY: kill touches no memory of ours; the id was just seen to be the one meant.
            unsafe { libc::kill(self.pid as libc::pid_t, libc::SIGKILL) };
        }
    }
}

/// Resident memory of a process by kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Private anonymous: what a budget limits.
    pub anonymous: u64,
    /// Shared memory (memfd, tmpfs): shown so that nothing can hide there.
    pub shared: u64,
}

/// `/proc/PID/status`, kept open.
pub struct Status(File);

impl Status {
    /// Opens the file of process `pid`.
    pub fn open(pid: u32) -> Result<Status> {
        let path = format!("/proc/{pid}/status");
        Ok(Status(
            File::open(&path).with_context(|| format!("cannot open {path}"))?,
        ))
    }

    /// Resident memory at this moment.
    pub fn resident(&self) -> Result<Resident> {
        let mut buffer = [0; 8192];
        let length = self.0.read_at(&mut buffer, 0)?;
        parse_status(&buffer[..length])
    }
}

fn parse_status(text: &[u8]) -> Result<Resident> {
    let text = std::str::from_utf8(text)?;
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
    };
    match (field("RssAnon"), field("RssShmem")) {
        (Some(anonymous), Some(shared)) => Ok(Resident {
            anonymous: anonymous * 1024,
            shared: shared * 1024,
        }),
        _ => bail!("no RssAnon in /proc status: the process has ended"),
    }
}

/// One sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time since sampling began.
    pub at: Duration,
    /// Resident memory then.
    pub resident: Resident,
    /// Whatever else was to be sampled (0 if nothing).
    pub other: u64,
}

/// All samples of one stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Samples(pub Vec<Sample>);

impl Samples {
    /// Highest private anonymous memory seen, in bytes.
    pub fn peak(&self) -> u64 {
        self.0
            .iter()
            .map(|s| s.resident.anonymous)
            .max()
            .unwrap_or(0)
    }

    /// Highest shared memory seen, in bytes.
    pub fn peak_shared(&self) -> u64 {
        self.0.iter().map(|s| s.resident.shared).max().unwrap_or(0)
    }

    /// Mean of `value` over the samples.
    pub fn mean(&self, value: impl Fn(&Sample) -> u64) -> u64 {
        match self.0.len() {
            0 => 0,
            n => self.0.iter().map(value).sum::<u64>() / n as u64,
        }
    }

    /// Longest time between two samples.
    pub fn longest_gap(&self) -> Duration {
        let gaps = self.0.windows(2).map(|w| w[1].at - w[0].at);
        gaps.max().unwrap_or_default()
    }
}

/// A thread that samples the resident memory of a process at a fixed interval.
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Samples>,
}

impl Sampler {
    /// Starts sampling process `pid`, together with `other`.
    pub fn start(
        pid: u32,
        interval: Duration,
        other: impl Fn() -> u64 + Send + 'static,
    ) -> Result<Sampler> {
        let status = Status::open(pid)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let begin = Instant::now();
            let mut samples = Vec::new();
            while !stopped.load(Relaxed) {
                let Ok(resident) = status.resident() else {
                    break;
                };
                let at = begin.elapsed();
                samples.push(Sample {
                    at,
                    resident,
                    other: other(),
                });
                // To a fixed grid, so that a late sample does not delay all later ones.
                let past = at.as_nanos() as u64 % interval.as_nanos() as u64;
                std::thread::sleep(interval - Duration::from_nanos(past));
            }
            Samples(samples)
        });
        Ok(Sampler { stop, thread })
    }

    /// Ends sampling.
    pub fn finish(self) -> Samples {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_parsed() {
        let text =
            b"Name:\tx\nVmRSS:\t 999 kB\nRssAnon:\t    12 kB\nRssFile:\t 3 kB\nRssShmem:\t 4 kB\n";
        let resident = parse_status(text).unwrap();
        assert_eq!(resident.anonymous, 12 * 1024);
        assert_eq!(resident.shared, 4 * 1024);
        assert!(parse_status(b"Name:\tzombie\n").is_err());
    }

    #[test]
    fn a_process_is_itself_and_the_sampler_sees_it() {
        let me = std::process::id();
        assert_eq!(Identity::of(me).unwrap(), Identity::of(me).unwrap());
        let (looked, looks) = std::sync::mpsc::channel();
        let other = move || {
            let _ = looked.send(());
            7
        };
        let sampler = Sampler::start(me, Duration::from_millis(2), other).unwrap();
        // However long a busy machine takes for that.
        assert_eq!(looks.iter().take(4).count(), 4);
        let samples = sampler.finish();
        assert!(samples.0.len() >= 3, "{}", samples.0.len());
        assert!(samples.peak() > 0);
        assert_eq!(samples.mean(|s| s.other), 7);
        assert!(samples.longest_gap() > Duration::ZERO);
    }
}
