//! Testers of memory under random eviction: `memtester` and `stress-ng`.
//!
//! Both lock their memory when they may, and then nothing is evictable: they run without
//! CAP_IPC_LOCK and with a limit of zero locked bytes.

use crate::place::{Place, Start};
use crate::run::{self, Batch, Done, Program, Watch};
use anyhow::{Context, Result, bail};
use coldpress_harness::managed::Statistics;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const WITHOUT_LOCKING: [&str; 6] = [
    "prlimit",
    "--memlock=0:0",
    "setpriv",
    "--bounding-set=-ipc_lock",
    "--inh-caps=-ipc_lock",
    "--",
];

/// Evictions that each page must have had, on average.
pub const EVICTIONS_A_PAGE: f64 = 10.0;

/// What a tester must say.
struct Tester {
    batch: Batch,
    says: &'static str,
    never_says: &'static str,
}

/// memtester: all its tests, once.
pub fn memtester(place: &Place) -> Result<Box<dyn Program>> {
    let size = format!("{}K", place.scaled(48 << 10));
    tester("memtester", &[&size, "1"], "unlocked", "FAILURE")
}

/// The memory stressor of stress-ng, by all its methods, which verifies what it wrote.
pub fn stress_ng(place: &Place) -> Result<Box<dyn Program>> {
    let size = format!("{}K", place.scaled(48 << 10));
    let line = format!(
        "--vm 1 --vm-bytes {size} --vm-keep --vm-method all --verify --seed 1 --timeout 20 --stdout"
    );
    let words: Vec<_> = line.split(' ').collect();
    tester("stress-ng", &words, "successful run completed", "fail:")
}

fn tester(
    name: &str,
    arguments: &[&str],
    says: &'static str,
    never_says: &'static str,
) -> Result<Box<dyn Program>> {
    let program =
        coldpress_harness::install::find_program(name).with_context(|| format!("no {name}"))?;
    let batch = Batch {
        program,
        arguments: arguments.iter().map(Into::into).collect(),
        before: WITHOUT_LOCKING.into(),
        ..Batch::default()
    };
    Ok(Box::new(Tester {
        batch,
        says,
        never_says,
    }))
}

impl Program for Tester {
    /// It is not run for its output, which tells times, but for its verdict. Its statistics are those of the process with most evictions: stress-ng tests in a child.
    fn run(&self, start: &Start, watch: Watch) -> Result<Done> {
        let stop = AtomicBool::new(false);
        let name = self.batch.program.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let (done, seen) = std::thread::scope(|scope| {
            let looker = scope.spawn(|| look_on(start, &name, &stop));
            let done = self.batch.run(start, watch);
            stop.store(true, Relaxed);
            (done, looker.join().ok().flatten())
        });
        let mut done = done?;
        let errors = std::fs::read(start.place.dir.join("errors"))?;
        let said = [&done.output[..], &errors[..]].concat();
        let said = String::from_utf8_lossy(&said);
        if !said.contains(self.says) || said.contains(self.never_says) {
            bail!(
                "it did not pass{}",
                run::tail(&start.place.dir.join("output"))
            );
        }
        let most = |s: &Statistics| s.get("evictions").unwrap_or(0);
        done.statistics = [done.statistics, seen]
            .into_iter()
            .flatten()
            .max_by_key(most);
        done.output = Vec::new();
        Ok(done)
    }
}

/// Looks at all managed processes of that name until it is told to stop, and keeps what was last
/// seen of the one with most evictions.
fn look_on(start: &Start, name: &str, stop: &AtomicBool) -> Option<Statistics> {
    let mut most: Option<Statistics> = None;
    while !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(200));
        if !start.is_managed() {
            continue;
        }
        let output = Command::new(&start.place.coldpress)
            .args(["status", "--json"])
            .output();
        let Some(serde_json::Value::Array(processes)) = output
            .ok()
            .and_then(|o| serde_json::from_slice(&o.stdout).ok())
        else {
            continue;
        };
        for process in processes {
            let is_meant = process["program"]
                .as_str()
                .is_some_and(|n| n.starts_with(name));
            let now = Statistics(process);
            let evictions = |s: &Statistics| s.get("evictions").unwrap_or(0);
            if is_meant
                && most
                    .as_ref()
                    .is_none_or(|m| evictions(m) <= evictions(&now))
            {
                most = Some(now);
            }
        }
    }
    most
}

/// Evictions for each page that the program has.
pub fn evictions_a_page(statistics: &Statistics) -> Option<f64> {
    let pages = statistics.get("tracked_pages").filter(|&pages| pages > 0)?;
    Some(statistics.get("evictions")? as f64 / pages as f64)
}
