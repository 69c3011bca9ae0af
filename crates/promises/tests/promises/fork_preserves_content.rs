//! A forked child reads what its parent had, compressed or not, and nobody sees another's writes:
//! child and grandchild, from a single thread and from among threads that write, allocate and hold
//! stdio buffers.

use coldpress_promises::hazards::{survive, survive_started_by_another};

#[test]
fn children_and_grandchildren() {
    survive("fork_content");
}

#[test]
fn children_and_grandchildren_under_random_eviction() {
    survive("fork_content_chaos");
}

#[test]
fn children_of_a_threaded_program() {
    survive("fork_with_threads");
}

#[test]
fn children_of_a_threaded_program_under_random_eviction() {
    survive("fork_with_threads_chaos");
}

/// Story: the child's pager was built by a hook that ran after signal handlers and after the hooks
/// of other libraries, and with stacks of short-lived threads missing: all read zeros for good.
#[test]
fn signal_handlers_around_a_fork() {
    survive("fork_and_signals");
}

#[test]
fn signal_handlers_around_a_fork_under_random_eviction() {
    survive("fork_and_signals_chaos");
}

/// Story: the child's statistics came to lie where another thread of the parent had just unmapped
/// memory of which the pager still thought; the child ended rather than go on in doubt.
#[test]
fn children_of_a_program_that_unmaps() {
    survive("fork_while_unmapping");
}

/// Story: memory that another thread moved, while the pager went through the mappings to let the child have them, kept the
/// mark that keeps it from children: the child did not have it. Found by the simulation of the pager.
#[test]
fn children_of_a_program_that_moves_memory() {
    survive("fork_while_moving");
}

/// Story: what was excluded where memory had been unmapped during a fork of another thread was taken all the same. The
/// unmapping was only noted while the pager was still, and when it was acted on it ended the exclusion, which was younger.
/// Found by the simulation of the pager.
#[test]
fn what_is_said_of_memory_during_a_fork_holds() {
    survive("advised_while_forking");
}

/// Story: in a child of which nothing was away `madvise` with `MADV_DOFORK` was a defect of the pager, which had not started
/// there, and ended the child. And `mremap` was refused across the borders of what the parent's pager had registered.
#[test]
fn children_that_wait_for_their_pager_use_their_memory() {
    survive("fork_waits");
}

/// Story: the pager was still until a child with `CLONE_VFORK` and a copy of the memory had executed something, so that
/// other threads' forks and moves waited for that; natively only the one thread does.
#[test]
fn others_go_on_while_a_thread_waits_for_its_copy() {
    survive("vfork_copies");
}

#[test]
fn they_do_in_a_program_that_another_has_started() {
    survive_started_by_another("vfork_copies");
}
