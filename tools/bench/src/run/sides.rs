//! One run of a workload: natively, under coldpress, or in a cgroup that swaps to zram.
//!
//! What is measured is measured in the same way everywhere: memory held every 10 ms, CPU time of all
//! processes of the run, pages that went out and came in. Only the time of reclaim has two
//! sources: the CPU time of the pager's reclaim thread (`coldpress/main`) on the one side, the
//! kernel's tracepoints on the other ([`super::reclaim`]).

use super::reclaim::{Following, Tracing};
use crate::zram::{self, Swapped, Zram};
use anyhow::Result;
use coldpress_harness::cgroup::Group;
use coldpress_harness::managed::Statistics;
use coldpress_harness::process::{Sample, Sampler, Samples, stat_field};
use coldpress_programs::place::{Place, Start};
use coldpress_programs::run::{Done, Figure, Program};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often memory is looked at.
const INTERVAL: Duration = Duration::from_millis(10);
/// Processors that are told apart.
const PROCESSORS: usize = 64;

/// The kernel's side: a swap device and, where there is tracefs, a trace.
pub struct Kernel {
    /// The device.
    pub zram: Zram,
    /// Its reclaim.
    pub tracing: Option<Tracing>,
}

/// Where a run takes place.
pub enum Side<'a> {
    /// As it is.
    Native,
    /// Under coldpress with so large a budget, in a group that is limited where a limit is given.
    Coldpress(u64, Option<u64>),
    /// In a group that is limited so.
    Zram(&'a Kernel, u64),
}

/// What a run showed.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Time of all of it, in seconds.
    pub seconds: f64,
    /// CPU time of all its processes, in seconds.
    pub cpu_seconds: f64,
    /// What the program or its client measured.
    pub figures: Vec<Figure>,
    /// What it printed and wrote.
    pub output: Vec<u8>,
    /// Memory held, pages and pool together: 95 of 100 samples were below, in bytes.
    pub held: f64,
    /// The most.
    pub held_peak: f64,
    /// Resident pages alone, as `held`.
    pub resident: f64,
    /// Pages that came in.
    pub pages_in: u64,
    /// Pages that went out.
    pub pages_out: u64,
    /// Time of reclaim, in seconds.
    pub reclaim_seconds: Option<f64>,
    /// What the pager says of its faults: p50 and p99 in ns.
    pub statistics: Option<Statistics>,
    /// Samples of the main thread on each processor.
    pub processors: Vec<u64>,
}

impl Round {
    /// Reclaim for each page that went out, in ns.
    pub fn reclaim_a_page(&self) -> Option<f64> {
        let pages = (self.pages_out > 0).then_some(self.pages_out as f64)?;
        Some(self.reclaim_seconds? * 1e9 / pages)
    }
}

impl Side<'_> {
    /// The group that limits memory here; `None`: none does.
    fn group(&self) -> Result<Option<Group>> {
        match self {
            Side::Zram(_, limit) => Group::limited(*limit, 8 << 30).map(Some),
            Side::Coldpress(_, Some(limit)) => Group::limited(*limit, 0).map(Some),
            _ => Ok(None),
        }
    }

    /// How a program is started here, in no group as yet.
    fn start<'a>(&self, place: &'a Place) -> Start<'a> {
        match self {
            Side::Coldpress(budget, _) => Start::managed(place, *budget),
            _ => Start::native(place),
        }
    }

    /// The trace of the kernel's reclaim, which begins now; `None`: there is none here.
    fn follow(&self) -> Result<Option<Following>> {
        match self {
            Side::Zram(Kernel { tracing, .. }, _) => {
                tracing.as_ref().map(Tracing::follow).transpose()
            }
            _ => Ok(None),
        }
    }
}

/// What is seen of a program while it runs.
struct Watch<'a> {
    side: &'a Side<'a>,
    group: Option<&'a Group>,
    sampler: Option<Sampler>,
    /// Samples of the main thread on each processor.
    processors: Arc<[AtomicU64; PROCESSORS]>,
    /// CPU time of the pager's reclaim thread, in ns.
    reclaimer: Arc<AtomicU64>,
}

impl<'a> Watch<'a> {
    fn new(side: &'a Side<'a>, group: Option<&'a Group>) -> Self {
        Self {
            side,
            group,
            sampler: None,
            processors: Arc::new([const { AtomicU64::new(0) }; PROCESSORS]),
            reclaimer: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Samples this process from now on.
    fn begin(&mut self, pid: u32) -> Result<()> {
        let besides = self.besides(pid);
        let counts = self.processors.clone();
        self.sampler = Some(Sampler::start(pid, INTERVAL, move || {
            if let Some(processor) = processor_of(pid) {
                counts[processor % PROCESSORS].fetch_add(1, Relaxed);
            }
            besides()
        })?);
        Ok(())
    }

    /// What each sample looks at besides the process; returns the bytes held outside of it.
    fn besides(&self, pid: u32) -> Box<dyn Fn() -> u64 + Send> {
        match (self.side, self.group) {
            (Side::Zram(kernel, _), Some(group)) => {
                let (pool, cached) = (kernel.zram.meter(), group.swap_cached());
                Box::new(move || pool().used + cached())
            }
            (Side::Coldpress(..), _) => {
                let time = reclaim_thread(pid);
                let last = self.reclaimer.clone();
                Box::new(move || {
                    last.fetch_max(time(), Relaxed);
                    0
                })
            }
            _ => Box::new(|| 0),
        }
    }

    /// All samples; no more are taken.
    fn finish(&mut self) -> Samples {
        let sampler = self.sampler.take();
        sampler.map(Sampler::finish).unwrap_or_default()
    }

    /// Samples of the main thread on each processor, up to the last that it was on.
    fn used_processors(&self) -> Vec<u64> {
        let used = self.processors.iter().map(|n| n.load(Relaxed));
        let mut used: Vec<u64> = used.collect();
        used.truncate(used.iter().rposition(|&n| n > 0).map_or(0, |at| at + 1));
        used
    }
}

/// Pages that went either way in a run, and the time of reclaim, in seconds.
struct Moved {
    pages_in: u64,
    pages_out: u64,
    reclaim_seconds: Option<f64>,
}

impl Moved {
    /// By the pager's statistics and the CPU time of its reclaim thread, in ns.
    fn by_the_pager(done: &Done, reclaim_ns: u64) -> Self {
        let statistics = done.statistics.as_ref();
        let count = |name: &str| statistics.and_then(|s| s.get(name)).unwrap_or(0);
        let restored = ["decompressions", "faults_copied", "faults_same_filled"];
        Self {
            pages_in: restored.iter().map(|name| count(name)).sum(),
            pages_out: count("evictions"),
            reclaim_seconds: Some(reclaim_ns as f64 / 1e9),
        }
    }

    /// By the machine's swap counters, before the run and after it.
    fn by_the_kernel(before: &Swapped, after: &Swapped, reclaim_seconds: Option<f64>) -> Self {
        Self {
            pages_in: after.pages_in - before.pages_in,
            pages_out: after.pages_out - before.pages_out,
            reclaim_seconds,
        }
    }

    fn nothing() -> Self {
        Self {
            pages_in: 0,
            pages_out: 0,
            reclaim_seconds: None,
        }
    }
}

/// Runs a program once.
pub fn run(program: &dyn Program, place: &Place, side: &Side) -> Result<Round> {
    let group = side.group()?;
    let start = Start {
        group: group.as_ref(),
        ..side.start(place)
    };
    let before = zram::swapped()?;
    let mut watch = Watch::new(side, group.as_ref());
    let following = side.follow()?;
    let done = program.run(&start, &mut |pid| watch.begin(pid));
    let samples = watch.finish();
    let traced_seconds = following.map(Following::finish);
    let done = done?;
    let after = zram::swapped()?;
    let moved = match side {
        Side::Native => Moved::nothing(),
        Side::Coldpress(..) => Moved::by_the_pager(&done, watch.reclaimer.load(Relaxed)),
        Side::Zram(..) => Moved::by_the_kernel(&before, &after, traced_seconds),
    };
    let resident = |s: &Sample| s.resident.anonymous + s.resident.shared;
    let held = |s: &Sample| resident(s) + s.other;
    Ok(Round {
        seconds: done.seconds,
        cpu_seconds: done.cpu_seconds,
        figures: done.figures,
        output: done.output,
        held: most(&samples, 0.95, held),
        held_peak: most(&samples, 1.0, held),
        resident: most(&samples, 0.95, resident),
        pages_in: moved.pages_in,
        pages_out: moved.pages_out,
        reclaim_seconds: moved.reclaim_seconds,
        statistics: done.statistics,
        processors: watch.used_processors(),
    })
}

/// The value below which this share of the samples is.
fn most(samples: &Samples, share: f64, value: impl Fn(&Sample) -> u64) -> f64 {
    let mut values: Vec<u64> = samples.0.iter().map(value).collect();
    values.sort_unstable();
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(0) as f64
}

/// Something that tells the CPU time of the pager's reclaim thread, in ns.
fn reclaim_thread(pid: u32) -> impl Fn() -> u64 + Send {
    let found = OnceLock::new();
    move || {
        if found.get().is_none()
            && let Some(path) = thread_named(pid, "coldpress/main")
        {
            let _ = found.set(path.join("schedstat"));
        }
        let text = found
            .get()
            .and_then(|path| std::fs::read_to_string(path).ok());
        let first = text.and_then(|text| text.split(' ').next()?.parse().ok());
        first.unwrap_or(0)
    }
}

fn thread_named(pid: u32, name: &str) -> Option<std::path::PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    tasks.flatten().map(|task| task.path()).find(|path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

/// The processor that the main thread was last on.
fn processor_of(pid: u32) -> Option<usize> {
    stat_field(pid, 39).map(|processor| processor as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldpress_harness::process::{Resident, Sample};

    #[test]
    fn the_share_of_samples_is_taken() {
        let sample = |kib| Sample {
            at: Duration::ZERO,
            resident: Resident {
                anonymous: kib,
                shared: 0,
            },
            other: 0,
        };
        let samples = Samples((1..=100).map(sample).collect());
        assert_eq!(most(&samples, 0.95, |s| s.resident.anonymous), 95.0);
        assert_eq!(most(&samples, 1.0, |s| s.resident.anonymous), 100.0);
        assert_eq!(most(&Samples::default(), 0.95, |_| 1), 0.0);
    }

    #[test]
    fn the_processor_and_threads_of_a_process_are_found() {
        let pid = std::process::id();
        assert!(processor_of(pid).is_some());
        assert!(thread_named(pid, "no such thread").is_none());
    }
}
