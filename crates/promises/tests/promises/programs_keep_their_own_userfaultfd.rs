//! A program that registers memory with a userfaultfd of its own gets its registration and its faults,
//! whether it does so at once or after the pager has seen the memory.

use coldpress_promises::hazards::survive;

#[test]
fn registered_at_once() {
    survive("own_userfaultfd");
}

#[test]
fn registered_late() {
    survive("own_userfaultfd_late");
}
