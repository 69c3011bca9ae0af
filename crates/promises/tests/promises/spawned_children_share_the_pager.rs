//! Children of vfork, posix_spawn and clone(CLONE_VM) run in their parent's memory until they exec:
//! its pager serves them while the parent waits.

use coldpress_promises::hazards::survive;

#[test]
fn spawned_children() {
    survive("spawned_children");
}

#[test]
fn spawned_children_under_random_eviction() {
    survive("spawned_children_chaos");
}
