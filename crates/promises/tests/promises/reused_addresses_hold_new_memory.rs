//! An address that was unmapped or mapped over holds the new mapping's bytes. The pager's own mappings
//! must not land in a hole that the program made and is about to fill, either. And where one thread
//! unmaps, the kernel may give the address to another thread before the pager reads the event.

use coldpress_promises::hazards::survive;

#[test]
fn reused_addresses_hold_new_memory() {
    survive("unmap_reuse");
}

#[test]
fn among_threads() {
    survive("reuse_among_threads");
}

#[test]
fn among_threads_under_random_eviction() {
    survive("reuse_among_threads_chaos");
}
