//! A fault that is not answered within a second is reported with its thread and its address while
//! the program still waits, and counted. Also where standard error is a plain file, as after
//! `2>log`: the program's later lines must not overwrite the report.

use coldpress_interface::config;
use coldpress_promises::{Managed, Workplace, skip};
use std::fs;

/// Runs under `wrapper`; the report is looked for in standard error and in the file `log`.
fn stall(wrapper: &[&str]) {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("stall");
    let program = place.compile("cold_reread");
    let (outcome, statistics) = Managed::new(&place)
        .budget("12M")
        .environment(config::STALL_FIRST_FAULT_MS, "3000")
        .wrapped(wrapper.iter().copied())
        .run(&program, ["1", "24", "1"]);
    assert!(outcome.verdict().is_some());
    let statistics = statistics.unwrap_or_else(|| panic!("no statistics: {outcome}"));
    statistics.at_least("stalled_faults", 1);
    let address = format!("{:x}", statistics.get("stalled_address") & !0xfff);
    let thread = statistics.get("stalled_thread").to_string();
    let log = fs::read_to_string(place.path("log")).unwrap_or_default();
    let said = format!("{}{log}", outcome.stderr);
    let reported = said
        .lines()
        .find(|l| l.contains(&thread) && l.to_lowercase().contains(&address));
    match reported {
        Some(line) => eprintln!("reported: {line}"),
        None => {
            panic!("no line names thread {thread} and address {address}: {outcome}\n--- log\n{log}")
        }
    }
}

#[test]
fn stalled_faults_are_reported() {
    stall(&[]);
}

#[test]
fn stalled_faults_are_reported_to_a_plain_file() {
    stall(&["sh", "-c", "exec \"$@\" 2>log", "sh"]);
}
