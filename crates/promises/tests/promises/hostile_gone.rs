//! Threads that have gone leave nothing behind that is in the pager's way: not their stacks, not their alternate
//! stacks, and not the first of all threads.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::process::Command;
use std::time::Duration;

fn survives(how: &str) {
    let place = Workplace::new("hostile-gone");
    let program = place.compile("hostile_gone");
    let mut native = Command::new(&program);
    native.args(["1", how]);
    let outcome = process::run(&place, native, Duration::from_secs(60));
    outcome.verdict().unwrap_or_else(|| panic!("{outcome}"));
    let managed = || Managed::new(&place).budget("24M");
    managed().survive(&program, ["1", how]);
    if !skip::root_or_skip() {
        return;
    }
    match managed().as_nobody().with_device() {
        Ok(managed) => drop(managed.survive(&program, ["2", how])),
        Err(error) => skip::skipped(&format!("/dev/userfaultfd: {error}")),
    }
}

/// Story: what lay at the place of 64 stacks, half a gigabyte, was left alone for good.
#[test]
fn memory_in_the_place_of_stacks_is_taken() {
    survives("stacks");
}

/// Story: 8,192 alternate stacks that were freed without a word filled the table, and nothing was taken any more.
#[test]
fn alternate_stacks_end_with_their_threads() {
    survives("signals");
}

/// Story: `/proc/self` is the first thread's, which has no mappings and no memory once it has left; nothing was taken.
#[test]
fn the_first_thread_may_leave() {
    survives("main");
}
