//! stress-ng's memory stressor verifies what it writes, by all its methods, under constant eviction: each page
//! that it has is taken out at least ten times on average.
//!
//! It locks its memory when it may, and then nothing is evictable: it runs without CAP_IPC_LOCK and with a
//! limit of zero locked bytes. The stressor is a forked child with a pager of its own, which is looked at while
//! it runs.

use coldpress_promises::managed::binary;
use coldpress_promises::{Managed, Workplace, skip};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const STRESS_NG: &str = "/usr/bin/stress-ng";

/// What was last seen of a process that had more evictions than any other.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    evictions: u64,
    tracked_pages: u64,
    corrupt: u64,
}

/// Looks at all managed processes of stress-ng until it is told to stop.
fn watch(stop: &AtomicBool) -> Seen {
    let mut most = Seen::default();
    while !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(200));
        let output = Command::new(binary()).args(["status", "--json"]).output();
        let Ok(Value::Array(processes)) =
            serde_json::from_slice(&output.expect("coldpress status").stdout)
        else {
            continue;
        };
        let name = |p: &&Value| {
            p["program"]
                .as_str()
                .is_some_and(|n| n.starts_with("stress-ng"))
        };
        for process in processes.iter().filter(name) {
            let number = |name: &str| process[name].as_u64().unwrap_or(0);
            if number("evictions") >= most.evictions {
                most = Seen {
                    evictions: number("evictions"),
                    tracked_pages: number("tracked_pages").max(1),
                    corrupt: process["failures"]["corrupt"].as_u64().unwrap_or(0),
                };
            }
        }
    }
    most
}

#[test]
fn stress_ng_passes() {
    if !skip::root_or_skip()
        || !skip::installed_or_skip(STRESS_NG, "stress-ng")
        || !skip::unlocking_or_skip()
    {
        return;
    }
    let place = Workplace::new("stress-ng");
    let arguments =
        "--vm 1 --vm-bytes 16M --vm-keep --vm-method all --verify --seed 1 --timeout 15";
    let managed = Managed::new(&place).budget("64M").chaos().without_locking();
    let stop = AtomicBool::new(false);
    let (outcome, seen) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&stop));
        let (outcome, _) = managed.run(Path::new(STRESS_NG), arguments.split(' '));
        stop.store(true, Relaxed);
        (outcome, watcher.join().expect("the watcher"))
    });
    assert!(outcome.status.success(), "{outcome}");
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("successful run completed"), "{outcome}");
    assert!(!said.contains("fail:"), "{outcome}");
    let a_page = seen.evictions / seen.tracked_pages;
    eprintln!("stress-ng: {seen:?}, {a_page} evictions a page");
    assert!(seen.tracked_pages >= 3000, "{seen:?}: it has 4096 pages");
    assert!(a_page >= 10 && seen.corrupt == 0, "{seen:?}");
}
