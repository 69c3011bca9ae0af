//! Stacks, thread-local storage and alternate signal stacks of idle threads stay resident.

use coldpress_promises::hazards::survive;

#[test]
fn stacks_are_never_evicted() {
    survive("idle_stacks");
}
