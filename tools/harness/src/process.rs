//! What `/proc` says about a process: identity, resident memory, samples of it over time.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A process that cannot be mistaken for a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`.
    pub start_time_ticks: u64,
}

/// A field of `/proc/PID/stat`, by its number in proc(5), which is 3 or more. The name in parentheses before it may hold
/// anything.
pub fn stat_field(pid: u32, number: usize) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

impl Identity {
    /// The process that has `pid` now.
    pub fn of(pid: u32) -> Result<Identity> {
        let start_time_ticks =
            stat_field(pid, 22).with_context(|| format!("process {pid} is gone"))?;
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

/// Resident memory of process `pid` at this moment; `None`: it has ended.
pub fn resident(pid: u32) -> Option<Resident> {
    Status::open(pid).ok()?.resident().ok()
}

/// The children of a process, whichever of its threads has started them.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let lists = tasks
        .flatten()
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let pids = lists.flat_map(|list| {
        let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.collect::<Vec<u32>>()
    });
    pids.collect()
}

/// `pid` and every process that it or a child of it has started, as far as they live.
pub fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(&pid) = all.get(at) {
        all.extend(children(pid));
        at += 1;
    }
    all
}

/// The process of [`family`] that holds most private anonymous memory.
pub fn largest(pid: u32) -> Result<u32> {
    let held = |&pid: &u32| resident(pid).map_or(0, |resident| resident.anonymous);
    family(pid)
        .into_iter()
        .max_by_key(held)
        .context("all of them are gone")
}

/// The process of [`family`] that executes `program`; it may be about to be started.
pub fn executing(pid: u32, program: &Path) -> Result<u32> {
    let program = program.canonicalize()?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        let executes = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
        };
        if let Some(found) = family(pid).into_iter().find(executes) {
            return Ok(found);
        }
        Identity::of(pid)?;
        std::thread::sleep(Duration::from_millis(2));
    }
    bail!("process {pid} has not started {}", program.display())
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
    fn what_a_shell_has_started_is_found_by_what_it_executes() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & echo begun; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let sleep = crate::install::find_program("sleep").unwrap();
        let found = executing(shell.id(), &sleep).unwrap();
        assert!(family(shell.id()).contains(&found) && found != shell.id());
        assert!(family(shell.id()).contains(&largest(shell.id()).unwrap()));
        assert!(executing(found, Path::new("/no/such/program")).is_err());
        Identity::of(found).unwrap().kill();
        shell.wait().unwrap();
        assert!(executing(shell.id(), &sleep).is_err(), "it has ended");
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
