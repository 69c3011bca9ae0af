//! Context switches and interrupts of a phase, for each of its faults.

use super::Rounds;
use anyhow::{Result, ensure};
use coldpress_harness::figures::median;
use coldpress_harness::text::Table;
use serde_json::{Value, json};
use std::fs;

/// Interrupts by which one processor asks another for something: to schedule, to call a function, to flush its TLB.
const INTERRUPTS: [&str; 3] = ["RES", "CAL", "TLB"];

/// What is counted, in the order of [`Counted::0`].
const NAMES: [&str; 6] = [
    "switches of the program's threads",
    "switches of the pager's threads",
    "processor time, µs",
    "interrupts: reschedule",
    "interrupts: function call",
    "interrupts: TLB flush",
];

/// Counters, at one moment or for one fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted([f64; NAMES.len()]);

impl Counted {
    /// Of this process, and of the machine.
    pub fn now(pid: u32) -> Counted {
        let mut all = [0.0; NAMES.len()];
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let is_pager = read("comm").starts_with("coldpress/");
            all[usize::from(is_pager)] += switches(&read("status")) as f64;
            let ran_ns = read("schedstat");
            let ran_ns = ran_ns
                .split_whitespace()
                .next()
                .and_then(|ns| ns.parse().ok());
            all[2] += ran_ns.unwrap_or(0.0) / 1e3;
        }
        let interrupts = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        for (n, name) in INTERRUPTS.iter().enumerate() {
            all[3 + n] = interrupts_of(&interrupts, name) as f64;
        }
        Counted(all)
    }

    /// What was counted since, for each of so many faults.
    pub fn since(&self, before: &Counted, faults: f64) -> Counted {
        let mut all = self.0;
        for (now, before) in all.iter_mut().zip(before.0) {
            *now = (*now - before).max(0.0) / faults.max(1.0);
        }
        Counted(all)
    }

    pub fn json(&self) -> Value {
        let named = NAMES
            .iter()
            .zip(self.0)
            .map(|(name, value)| ((*name).to_owned(), json!(value)));
        Value::Object(named.collect())
    }
}

fn switches(status: &str) -> u64 {
    let lines = status
        .lines()
        .filter(|line| line.contains("_ctxt_switches:"));
    lines
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

fn interrupts_of(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let numbers = line.unwrap_or_default().split_whitespace();
    numbers.map_while(|word| word.parse::<u64>().ok()).sum()
}

/// Medians of the rounds, a column for each side.
pub fn table(sides: &[&str; 3], found: &[Rounds; 3]) -> Table {
    let mut table = Table::new(&[&["a fault"], sides.as_slice()].concat());
    for (n, name) in NAMES.iter().enumerate() {
        let mut row = vec![(*name).to_owned()];
        for rounds in found {
            let values: Vec<f64> = rounds.counted.iter().map(|counted| counted.0[n]).collect();
            row.push(match values.is_empty() {
                true => "–".to_owned(),
                false => format!("{:.2}", median(&values)),
            });
        }
        table.row(&row);
    }
    table
}

/// While it lives, this thread and what it starts run on the first of the processors that they may run on.
pub struct Bound(libc::cpu_set_t);

/// Binds this thread.
pub fn bind_to_one() -> Result<Bound> {
    // SAFETY: zero is an empty set; the calls fill and read sets of their size.
    unsafe {
        let (mut all, mut one): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        ensure!(
            libc::sched_getaffinity(0, size, &raw mut all) == 0,
            "sched_getaffinity fails"
        );
        let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &all));
        libc::CPU_SET(first.unwrap_or(0), &mut one);
        ensure!(
            libc::sched_setaffinity(0, size, &raw const one) == 0,
            "sched_setaffinity fails"
        );
        Ok(Bound(all))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: a set that the kernel has told.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_parsed() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches(status), 15);
        let interrupts = "            CPU0       CPU1\n  0:  1  2 timer\nRES:   10   20   Rescheduling interrupts\n";
        assert_eq!(interrupts_of(interrupts, "RES"), 30);
        assert_eq!(interrupts_of(interrupts, "TLB"), 0);
    }
}
