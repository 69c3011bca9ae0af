//! Stacks, thread-local storage and alternate signal stacks of idle threads stay resident.

use coldpress_promises::hazards::{self, survive};
use coldpress_promises::{Workplace, skip};

#[test]
fn stacks_are_never_evicted() {
    survive("idle_stacks");
}

/// Story: an exclusion that came while mappings were read was dropped again, since they did not have the
/// thread's stack yet. Once the thread had ended its control block was taken; libc, which links those
/// of all stacks it keeps, read zeros in a forked child. 10 of 200 runs of `fork_and_signals.c`,
/// eight at a time.
#[test]
fn control_blocks_of_threads_that_have_ended_stay() {
    survive("ended_threads");
}

/// Story: where a seccomp filter of the program forbids `get_robust_list`, each thread looked like one
/// without a list, and its stack like any memory. Nothing more is compressed then, and that is said.
#[test]
fn stacks_that_the_kernel_does_not_tell_of_stop_compression() {
    if !skip::root_or_skip() {
        return;
    }
    let hazard = hazards::named("seccomp_threads");
    let place = Workplace::new(hazard.name);
    let program = place.compile(hazard.program);
    let (outcome, statistics) = hazard.managed(&place).run(&program, hazard.arguments);
    if outcome.verdict().is_none() {
        return;
    }
    assert!(
        outcome.stderr.contains("nothing more is compressed"),
        "{outcome}"
    );
    let statistics = statistics.expect("the pager ran");
    statistics.at_least("evictions", 1000);
}
