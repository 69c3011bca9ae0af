//! Fact: without EVENT_FORK a forked child inherits memory without its registration: it reads
//! zeros where a page is away. Memory under `MADV_DONTFORK` it does not have at all, and gets
//! SIGSEGV; `MADV_DOFORK` takes that back. The child may register the memory with a userfaultfd
//! of its own.
//!
//! Zeros in place of content are what must never happen: the pager keeps registered memory from
//! children (`MADV_DONTFORK`) except between its fork hooks, and its hook in the child registers
//! everything again.

use crate::common::{self, Ended, Pages, Task, WELL};
use coldpress_uffd::{Features, Userfaultfd};

/// Two pages, filled with 70 and 71, of which the second was taken away.
fn half_away(uffd: &Userfaultfd) -> Pages {
    let memory = Pages::filled(2, 70);
    let staging = Pages::map(1);
    common::register(uffd, memory);
    common::register(uffd, staging);
    let moved = common::move_pages(uffd, staging, memory.page(1));
    assert_eq!(moved, common::all_moved(1));
    memory
}

#[test]
fn zeros_where_the_pager_is_not_told() {
    let _begun = common::begin("a_forked_child_reads_zeros");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = half_away(&uffd);
    let ended = common::in_child(|| {
        assert!(memory.holds(0, 70));
        assert!(memory.holds(1, 0), "the child has the content");
    });
    assert_eq!(ended, WELL);
    assert!(common::is_silent(&uffd), "the parent heard of it");
}

#[test]
fn a_signal_where_the_memory_is_not_inherited() {
    let _begun = common::begin("a_forked_child_lacks_the_memory");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = half_away(&uffd);
    let touch = |n: usize| {
        common::in_child(move || {
            memory.read(n);
        })
    };
    assert_eq!(memory.advise(libc::MADV_DONTFORK), Ok(0));
    assert_eq!(touch(0), Ended::Signal(libc::SIGSEGV));
    assert_eq!(touch(1), Ended::Signal(libc::SIGSEGV));
    assert_eq!(memory.advise(libc::MADV_DOFORK), Ok(0));
    assert_eq!(touch(0), WELL);
    assert_eq!(touch(1), WELL);
    // In the parent nothing has changed: content in place, and the registration.
    assert!(memory.holds(0, 70));
    let reader = Task::start(move || memory.read(1));
    common::next(&uffd);
    common::copy(&uffd, memory, 1, 71).expect("restoring");
    assert_eq!(reader.finish(), 71);
}

#[test]
fn the_child_can_register_again() {
    let _begun = common::begin("a_forked_child_registers_again");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = half_away(&uffd);
    let ended = common::in_child(|| {
        let own = common::open(Features::PAGER).expect("as in the parent");
        common::register(&own, memory);
        assert!(memory.holds(0, 70));
        assert_eq!(memory.populated(), [0]);
        let reader = Task::start(move || memory.read(1));
        common::next(&own);
        common::copy(&own, memory, 1, 71).expect("restoring");
        assert_eq!(reader.finish(), 71);
    });
    assert_eq!(ended, WELL);
}
