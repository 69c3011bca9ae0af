//! What `top` knows of a program at one moment.

use crate::managed;
use crate::own_name;
use crate::pid::{are_pids, parse_pid};
use crate::process;
use crate::rule;
use crate::statistics_file::{Live, Run};
use crate::status;
use crate::sums;
use coldpress_interface::statistics::{Rule, Statistics};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A process: its id and when it began, since ids are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its id.
    pub pid: u32,
    /// When it began, in clock ticks since the machine started.
    pub start_ticks: u64,
}

/// Figures of a program, as they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Which process.
    pub key: Key,
    /// Name of the program.
    pub program: String,
    /// The budget, or [`NO_BUDGET`](coldpress_interface::control::NO_BUDGET).
    pub budget_bytes: u64,
    /// Memory that it holds.
    pub total_bytes: u64,
    /// Memory that it would hold natively.
    pub content_bytes: u64,
    /// Faults answered, ever.
    pub faults: u64,
    /// Processor time of the pager, ever.
    pub pager_cpu_ns: u64,
    /// The longest that a fault waited, ever.
    pub longest_wait_ns: u64,
    /// Which pages go in this moment, and why.
    pub rule: String,
    /// The name of that rule.
    pub rule_name: Option<&'static str>,
}

impl Reading {
    /// The figures of a process.
    pub fn of(pid: u32, program: String, s: &Statistics) -> Self {
        let get = |word: &AtomicU64| word.load(Relaxed);
        Self {
            key: Key {
                pid,
                start_ticks: get(&s.start_time_ticks),
            },
            program,
            budget_bytes: get(&s.budget_bytes),
            total_bytes: get(&s.total_bytes),
            content_bytes: get(&s.content_bytes),
            faults: get(&s.faults),
            pager_cpu_ns: sums::pager_cpu_ns(s),
            longest_wait_ns: get(&s.longest_fault_wait_ns),
            rule: rule::explain(s).unwrap_or_default(),
            rule_name: Rule::from_word(get(&s.rule)).map(Rule::name),
        }
    }

    /// What it holds less than natively; below zero where the pager takes more than it saves.
    pub fn saved_bytes(&self) -> i64 {
        self.content_bytes
            .wrapping_sub(self.total_bytes)
            .cast_signed()
    }

    /// What it saves, as a share of what it would hold natively.
    pub fn saved_share(&self) -> f64 {
        saved_share(self.total_bytes, self.content_bytes)
    }
}

/// What is held less than natively, as a share of what would be held.
pub fn saved_share(held_bytes: u64, content_bytes: u64) -> f64 {
    match content_bytes {
        0 => 0.0,
        content => 1.0 - held_bytes as f64 / content as f64,
    }
}

/// Which processes are looked at.
#[derive(Clone, Debug, Default)]
pub struct Wanted(Vec<String>);

impl Wanted {
    /// These: ids, or names of programs. All where there are none.
    pub fn new(processes: &[String]) -> Self {
        Self(processes.to_vec())
    }

    /// Whether some were named.
    pub fn is_named(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether all of them are process ids.
    pub fn are_numbers(&self) -> bool {
        are_pids(&self.0)
    }

    /// That none of them is there.
    pub fn nothing_to_show(&self) -> String {
        match self.0.is_empty() {
            true => status::nothing_to_show(),
            false => format!(
                "no {} runs under Coldpress; those that do: {} status",
                self.0.join(", "),
                own_name::get()
            ),
        }
    }

    /// These, where an id of a `coldpress run` means its program.
    fn among(&self, runs: &[Run]) -> Self {
        let meant = |wanted: &String| match parse_pid(wanted) {
            Ok(pid) => managed::meant(runs, pid).to_string(),
            Err(_) => wanted.clone(),
        };
        Self(self.0.iter().map(meant).collect())
    }

    fn has(&self, pid: u32, program: &str) -> bool {
        let is = |wanted: &String| match parse_pid(wanted) {
            Ok(wanted) => wanted == pid,
            Err(_) => managed::comm(wanted) == program,
        };
        self.0.is_empty() || self.0.iter().any(is)
    }
}

/// The processes under a pager that are wanted and that this user may see, with what is needed to ask them for something.
pub fn all(wanted: &Wanted) -> (Vec<Reading>, Vec<Live>) {
    let mut readings: Vec<Reading> = Vec::new();
    let runs = managed::runs();
    let wanted = wanted.among(&runs);
    let mut live = managed::all(runs);
    live.retain(|file| wanted.has(file.pid, &process::name(file.pid)));
    for file in &live {
        let page = file.copy.as_ref().ok();
        if let Some(page) = page.and_then(|copy| copy.statistics(file.pid).ok()) {
            let reading = Reading::of(file.pid, process::name(file.pid), page);
            if !readings.iter().any(|other| other.key == reading.key) {
                readings.push(reading);
            }
        }
    }
    (readings, live)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_wanted_by_id_or_name() {
        let wanted =
            |list: &[&str]| Wanted::new(&list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        assert!(wanted(&[]).has(7, "python3"));
        assert!(wanted(&["8", "7"]).has(7, "python3"));
        assert!(!wanted(&["8", "redis"]).has(7, "python3"));
        assert!(wanted(&["a-very-long-program-name"]).has(7, "a-very-long-pro"));
    }
}
