//! One run of a workload: natively, under coldpress, or in a cgroup that swaps to zram.
//!
//! What is measured is measured in the same way everywhere: memory held every 10 ms, CPU time of all
//! processes of the run, pages that went out and came in. Only the time of reclaim has two
//! sources: the CPU time of the pager's reclaim thread (`coldpress/main`) on the one side, the
//! kernel's tracepoints on the other ([`super::reclaim`]).

use super::reclaim::Tracing;
use crate::bench::zram::{self, Zram};
use crate::cgroup::Group;
use crate::managed::Statistics;
use crate::process::{Sampler, Samples};
use crate::programs::place::{Place, Start};
use crate::programs::run::{Figure, Program};
use anyhow::Result;
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

/// Runs a program once.
pub fn run(program: &dyn Program, place: &Place, side: &Side) -> Result<Round> {
    let limited = |limit: u64, swap: u64| Group::limited(limit, swap);
    let group = match side {
        Side::Zram(_, limit) => Some(limited(*limit, 8 << 30)?),
        Side::Coldpress(_, Some(limit)) => Some(limited(*limit, 0)?),
        _ => None,
    };
    let start = match side {
        Side::Coldpress(budget, _) => Start::managed(place, *budget),
        _ => Start::native(place),
    };
    let start = Start {
        group: group.as_ref(),
        ..start
    };
    let before = zram::swapped()?;
    let mut sampler = None;
    let following = match side {
        Side::Zram(
            Kernel {
                tracing: Some(tracing),
                ..
            },
            _,
        ) => Some(tracing.follow()?),
        _ => None,
    };
    let processors: Arc<[AtomicU64; PROCESSORS]> =
        Arc::new([const { AtomicU64::new(0) }; PROCESSORS]);
    let reclaimer = Arc::new(AtomicU64::new(0));
    let done = program.run(&start, &mut |pid| {
        let besides: Box<dyn Fn() -> u64 + Send> = match (side, &group) {
            (Side::Zram(kernel, _), Some(group)) => {
                let (pool, cached) = (kernel.zram.meter(), group.swap_cached());
                Box::new(move || pool().used + cached())
            }
            (Side::Coldpress(..), _) => {
                let time = reclaim_thread(pid);
                let last = reclaimer.clone();
                Box::new(move || {
                    last.fetch_max(time(), Relaxed);
                    0
                })
            }
            _ => Box::new(|| 0),
        };
        let counts = processors.clone();
        sampler = Some(Sampler::start(pid, INTERVAL, move || {
            if let Some(processor) = processor_of(pid) {
                counts[processor % PROCESSORS].fetch_add(1, Relaxed);
            }
            besides()
        })?);
        Ok(())
    });
    let samples = sampler.map(Sampler::finish).unwrap_or_default();
    let reclaim = following.map(super::reclaim::Following::finish);
    let done = done?;
    let after = zram::swapped()?;
    let count = |name: &str| {
        done.statistics
            .as_ref()
            .and_then(|s| s.get(name))
            .unwrap_or(0)
    };
    let restored = ["decompressions", "faults_copied", "faults_same_filled"];
    let (pages_in, pages_out, reclaim_seconds) = match side {
        Side::Native => (0, 0, None),
        Side::Coldpress(..) => (
            restored.iter().map(|name| count(name)).sum(),
            count("evictions"),
            Some(reclaimer.load(Relaxed) as f64 / 1e9),
        ),
        Side::Zram(..) => (
            after.pages_in - before.pages_in,
            after.pages_out - before.pages_out,
            reclaim,
        ),
    };
    let used = processors
        .iter()
        .map(|n| n.load(Relaxed))
        .collect::<Vec<_>>();
    let last = used.iter().rposition(|&n| n > 0).map_or(0, |at| at + 1);
    Ok(Round {
        seconds: done.seconds,
        cpu_seconds: done.cpu_seconds,
        figures: done.figures,
        output: done.output,
        held: most(&samples, 0.95, |s| {
            s.resident.anonymous + s.resident.shared + s.other
        }),
        held_peak: most(&samples, 1.0, |s| {
            s.resident.anonymous + s.resident.shared + s.other
        }),
        resident: most(&samples, 0.95, |s| s.resident.anonymous + s.resident.shared),
        pages_in,
        pages_out,
        reclaim_seconds,
        statistics: done.statistics,
        processors: used[..last].to_vec(),
    })
}

/// The value below which this share of the samples is.
fn most(samples: &Samples, share: f64, value: impl Fn(&crate::process::Sample) -> u64) -> f64 {
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
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 39; the 37th behind the name in parentheses.
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(36)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Resident, Sample};

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
