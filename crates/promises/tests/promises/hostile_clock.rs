//! A program that may not read the processor's counter runs as it does natively, and so does its child.

use coldpress_promises::{Managed, Workplace, process};
use std::process::Command;
use std::time::Duration;

/// Story: the hook at `exit`, the wrappers and the pager of a child read the clock by the vDSO, on threads to which
/// `PR_SET_TSC` forbids the counter: SIGSEGV, even of a program that only ended.
#[test]
fn without_the_counter_programs_run() {
    let place = Workplace::new("clock");
    let program = place.compile("hostile_clock");
    let mut natively = Command::new(&program);
    natively.arg("1");
    let native = process::run(&place, natively, Duration::from_secs(60));
    if native.verdict().is_none() {
        return;
    }
    for managed in [
        Managed::new(&place).budget("12M"),
        Managed::new(&place).chaos(),
    ] {
        let (outcome, statistics) = managed.run(&program, ["1"]);
        assert!(outcome.verdict().is_some(), "{outcome}");
        statistics.expect("statistics").at_least("evictions", 1);
    }
}
