//! Ten thousand threads are created and joined under random eviction, on stacks of glibc's and on
//! the program's own heap: `CLEARTID` on an evicted page would lose the kernel's store.

use coldpress_promises::hazards::survive;

#[test]
fn threads_on_their_own_stacks() {
    survive("thread_storm_own_stacks");
}

#[test]
fn threads_on_stacks_of_libc() {
    survive("thread_storm");
}
