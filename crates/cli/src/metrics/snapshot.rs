//! The processes under a pager that this user may see, as they were at one moment.

use crate::managed;
use crate::process;
use crate::report;
use crate::statistics_file::Copy;
use coldpress_interface::figures::Figures;
use coldpress_interface::statistics::Statistics;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A process.
#[derive(Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Name of its program.
    pub program: String,
    copy: Copy,
}

impl Process {
    /// One with figures of this process, for tests.
    #[cfg(test)]
    pub fn new(pid: u32, program: &str, copy: Copy) -> Self {
        let program = program.to_owned();
        Self { pid, program, copy }
    }

    /// Its figures. Only pages of our layout get into a snapshot.
    pub fn statistics(&self) -> Option<&Statistics> {
        self.copy.statistics(self.pid).ok()
    }

    /// What its engine counts and holds.
    pub fn figures(&self) -> &Figures {
        self.copy.figures()
    }

    /// Every figure that is a plain number, by its key in `status --json`.
    pub fn numbers(&self) -> BTreeMap<&'static str, u64> {
        let Some(statistics) = self.statistics() else {
            return BTreeMap::new();
        };
        let page = report::fields(statistics, self.figures());
        let engine = report::engine_figures(statistics, self.figures());
        page.chain(engine).collect()
    }
}

/// All of them.
#[derive(Debug)]
pub struct Snapshot {
    /// In the order of their ids, each id once.
    pub processes: Vec<Process>,
    /// Processes whose figures cannot be read: they have a pager of another layout.
    pub unreadable: u64,
    /// When it was taken.
    pub clock: Clock,
}

impl Snapshot {
    /// What is so now.
    pub fn take() -> Self {
        let mut snapshot = Self {
            processes: Vec::new(),
            unreadable: 0,
            clock: Clock::now(),
        };
        for live in managed::all(managed::runs()) {
            match live.copy {
                Ok(copy) if copy.statistics(live.pid).is_ok() => {
                    let program = process::name(live.pid);
                    snapshot.add(Process {
                        pid: live.pid,
                        program,
                        copy,
                    });
                }
                _ => snapshot.unreadable += 1,
            }
        }
        snapshot
    }

    /// Two series of one name must not have the same labels, so of two slots that name one process the newer counts.
    fn add(&mut self, process: Process) {
        let measured = |process: &Process| {
            let page = process.statistics();
            page.map_or(0, |page| page.measured_at_ns.load(Relaxed))
        };
        match self
            .processes
            .iter_mut()
            .find(|other| other.pid == process.pid)
        {
            Some(other) if measured(other) < measured(&process) => *other = process,
            Some(_) => {}
            None => self.processes.push(process),
        }
    }
}

/// What turns times of the kernel's clocks into times of day.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Time of day when the monotonic clock stood at zero.
    monotonic_zero: Duration,
    /// Time of day when the machine started, in seconds, as the kernel says it: it does not change from one reading to the
    /// next.
    boot_seconds: u64,
    ticks_per_second: u64,
}

impl Clock {
    fn now() -> Self {
        let day = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            monotonic_zero: day.saturating_sub(read(libc::CLOCK_MONOTONIC)),
            boot_seconds: boot_seconds().unwrap_or(0),
            ticks_per_second: process::ticks_per_second(),
        }
    }

    /// A time of the monotonic clock, in seconds since 1970.
    pub fn of_monotonic(&self, nanoseconds: u64) -> f64 {
        (self.monotonic_zero + Duration::from_nanos(nanoseconds)).as_secs_f64()
    }

    /// A time in clock ticks since the machine started, in seconds since 1970.
    pub fn of_ticks(&self, ticks: u64) -> f64 {
        self.boot_seconds as f64 + ticks as f64 / self.ticks_per_second as f64
    }
}

fn boot_seconds() -> Option<u64> {
    let text = process::read("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is valid, and the kernel fills it in.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_kernel_become_times_of_day() {
        let clock = Clock::now();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let monotonic = read(libc::CLOCK_MONOTONIC).as_nanos() as u64;
        assert!((clock.of_monotonic(monotonic) - now.as_secs_f64()).abs() < 5.0);
        let own = crate::process::Identity::of(std::process::id()).unwrap();
        let started = clock.of_ticks(own.start_time_ticks);
        assert!(started <= now.as_secs_f64() + 2.0, "{started}");
        assert!(started > now.as_secs_f64() - 86_400.0, "{started}");
    }
}
