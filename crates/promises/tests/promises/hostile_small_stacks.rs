//! Calls that the preload library takes part in need hardly more of the caller's stack than natively: coroutines, threads of
//! `PTHREAD_STACK_MIN` and alternate signal stacks may have no more, and no guard page.
//!
//! Seen to fail with 12 KiB below the caller's frame that were written to before signals were blocked: what lay beside a
//! coroutine's stack was overwritten, and the others ended by SIGSEGV.

use coldpress_promises::{Managed, Workplace, skip};
use std::collections::BTreeMap;
use std::process::Command;

/// So many bytes more than natively a call may need, where the pager is one that users have.
const MORE_BYTES: u64 = 3 << 10;

/// So much more room a pager with every assertion gets: its frames are larger.
fn extra() -> &'static str {
    match std::env::var_os("COLDPRESS_PRELOAD_LIBRARY") {
        Some(_) => "24576",
        None => "0",
    }
}

fn suffice(what: &str, as_nobody: bool) {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("small-stacks");
    let program = place.compile("small_stacks");
    let arguments = ["73", what, extra(), "nobody"];
    let arguments = &arguments[..3 + usize::from(as_nobody)];
    let native = Command::new(&program).args(arguments).output().unwrap();
    assert!(native.status.success(), "natively: {native:?}");
    Managed::new(&place)
        .budget("12M")
        .survive(&program, arguments);
}

#[test]
fn small_stacks_of_coroutines_suffice() {
    suffice("coroutines", false);
}

/// Its children can have no pager: everything is put back into place.
#[test]
fn so_they_do_where_children_have_no_pager() {
    suffice("coroutines", true);
}

#[test]
fn a_thread_with_the_least_stack_forks() {
    suffice("thread", false);
    suffice("thread", true);
}

#[test]
fn a_handler_on_a_small_alternate_stack_forks() {
    suffice("handler", false);
}

/// How deep each call gets.
fn depths(output: &str) -> BTreeMap<&str, u64> {
    let lines = output.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter_map(|(name, depth)| Some((name, depth.parse().ok()?)))
        .collect()
}

#[test]
fn calls_get_hardly_deeper_than_natively() {
    if !skip::root_or_skip() {
        return;
    }
    if extra() != "0" {
        return skip::skipped("depths: the frames of a pager with every assertion are larger");
    }
    let place = Workplace::new("stack-depths");
    let program = place.compile("small_stacks");
    let native = Command::new(&program).args(["73", "depths"]).output();
    let native = native.expect("it runs");
    let native = String::from_utf8_lossy(&native.stdout);
    let native = depths(&native);
    assert!(native.len() >= 16, "{native:?}");
    for arguments in [&["73", "depths"][..], &["73", "depths", "0", "nobody"]] {
        let (outcome, _) = Managed::new(&place).budget("12M").run(&program, arguments);
        assert!(outcome.verdict().is_some(), "{outcome}");
        for (name, depth) in depths(&outcome.stdout) {
            let natively = native[name];
            println!("{name}: {depth} bytes, natively {natively}");
            assert!(depth <= natively + MORE_BYTES, "{name}: {outcome}");
        }
    }
}
