//! Tracers that wait for ever: one that has stopped all threads of a program, the pager's among them, and reads
//! compressed memory by `process_vm_readv` waits in the kernel for a thread that waits for the tracer.
//!
//! Nothing in the program can run then, and nothing outside of it can bring the page. What can be done is to say so,
//! and what ends it: the parent looks for a tracer that waits in the kernel's handler of user faults at
//! [`CONVINCED`] looks in a row.

use crate::process;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Looks in a row that must see it.
const CONVINCED: u32 = 3;
/// The shortest time between two looks.
const LEAST: Duration = Duration::from_millis(900);
/// What the kernel calls the place where a thread waits for a handler (`/proc/TID/wchan`).
const WAITS_FOR_A_PAGE: &str = "handle_userfault";

/// The tracers that were seen to wait, by the program that they trace.
#[derive(Debug)]
pub struct Tracers {
    quiet: bool,
    not_before: Instant,
    waiting: HashMap<u32, Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    tracer: u32,
    looks: u32,
}

impl Tracers {
    /// None was seen yet. `quiet`: nothing shall be said.
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            not_before: Instant::now(),
            waiting: HashMap::new(),
        }
    }

    /// Looks at the tracers of these processes, if it is time to; the lines that say which of them wait.
    pub fn look(&mut self, managed: &[u32]) -> Vec<String> {
        let mut lines = Vec::new();
        let now = Instant::now();
        if self.quiet || now < self.not_before {
            return lines;
        }
        self.not_before = now + LEAST;
        let before = std::mem::take(&mut self.waiting);
        for &pid in managed {
            let Some(tracer) = tracer_of(pid).filter(|tracer| waits_for_a_page(*tracer)) else {
                continue;
            };
            let known = before.get(&pid).filter(|known| known.tracer == tracer);
            let looks = known.map_or(1, |known| known.looks.saturating_add(1));
            self.waiting.insert(pid, Waiting { tracer, looks });
            if looks == CONVINCED {
                lines.extend(say(pid, tracer));
            }
        }
        lines
    }
}

fn say(pid: u32, tracer: u32) -> [String; 4] {
    lines([&process::name(pid), &process::name(tracer)], [pid, tracer])
}

fn lines([program, tracer]: [&str; 2], [pid, tracer_pid]: [u32; 2]) -> [String; 4] {
    [
        format!("{program} ({pid}) is stopped by {tracer} ({tracer_pid}):"),
        "that reads compressed memory, and waits for the pager's threads,".to_owned(),
        format!("which it has stopped too; to end this: kill -KILL {tracer_pid}"),
        "py-spy works with --nonblocking, strace -p without -f".to_owned(),
    ]
}

/// The thread that traces the first thread of a process.
fn tracer_of(pid: u32) -> Option<u32> {
    parse_tracer(&process::read(format!("/proc/{pid}/status")).ok()?)
}

fn parse_tracer(status: &str) -> Option<u32> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))?;
    value.trim().parse().ok().filter(|tracer| *tracer != 0)
}

fn waits_for_a_page(thread: u32) -> bool {
    process::read(format!("/proc/{thread}/wchan")).is_ok_and(|at| at.trim() == WAITS_FOR_A_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracer_is_read_from_the_status() {
        let status =
            "Name:\tredis\nState:\tt (tracing stop)\nPPid:\t7\nTracerPid:\t4711\nUid:\t0\n";
        assert_eq!(parse_tracer(status), Some(4711));
        assert_eq!(parse_tracer("Name:\tredis\nTracerPid:\t0\n"), None);
        assert_eq!(parse_tracer(""), None);
        assert!(!waits_for_a_page(std::process::id()));
    }

    #[test]
    fn what_is_said_fits() {
        let lines = lines(["fifteen-letters"; 2], [4_194_304; 2]);
        assert!(lines.iter().all(|line| line.len() <= 69), "{lines:?}");
    }
}
