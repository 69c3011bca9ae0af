//! A call that would take memory away and fails leaves all of it: `mmap` over other memory beyond a limit, `munmap` and
//! `mremap` over memory that is sealed. Of advice that fails the part counts that was followed.

use coldpress_promises::hazards::{survive, survive_started_by_another};

/// Story: the kernel tells that memory is unmapped before it looks whether the call may do that (Linux 6.12 and later).
/// The pager believed it, and what was away of a range that `mmap` could not replace read as zeros.
#[test]
fn failed_calls_take_nothing_away() {
    survive("failed_unmap");
}

#[test]
fn nor_do_they_in_a_program_that_another_has_started() {
    survive_started_by_another("failed_unmap");
}

/// Story: what a block grew by, as it was moved over evicted memory, held what had been evicted: the memory was registered
/// again by the time that the unmapping was told, and so was taken for one that had failed. `verify` met the same where a
/// block grew over memory that another thread had just unmapped, once in 33 million cycles.
#[test]
fn what_memory_grows_by_is_new() {
    survive("grown_over");
}

#[test]
fn and_in_a_program_that_another_has_started() {
    survive_started_by_another("grown_over");
}

/// Story: advice that the kernel had followed up to something that cannot have it, or around a hole, and then refused, was
/// taken for not given: children read memory that is wiped in them, and what guards had dropped came back.
#[test]
fn what_failed_calls_have_done_is_known() {
    survive("advice_in_part");
}

#[test]
fn it_is_known_of_a_program_that_another_has_started() {
    survive_started_by_another("advice_in_part");
}
