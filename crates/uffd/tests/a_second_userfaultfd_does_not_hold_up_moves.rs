//! Fact: `UFFDIO_MOVE` heeds the unread events of the *destination's* userfaultfd only. Where
//! staging is registered with a second one, a move goes through while an UNMAP event of the first
//! is unread, and takes pages out of whatever is mapped at the old address by now, registered or
//! not.
//!
//! That is a page that the pager would never give back. It is why one userfaultfd serves both
//! the program's memory and staging.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Errno, Features, Userfaultfd};

/// Registered memory is unmapped and mapped anew; the event is still unread. Gives the new
/// memory, full of 9, and the thread that waits.
fn replaced_behind_our_back(uffd: &Userfaultfd) -> (Pages, Task<()>) {
    let memory = Pages::filled(1, 7);
    common::register(uffd, memory);
    let task = Task::start(move || memory.unmap());
    common::await_unread(uffd);
    memory.map_again();
    memory.fill(0, 9);
    (memory, task)
}

#[test]
fn staging_of_a_second_userfaultfd_takes_foreign_pages() {
    let _begun = common::begin("a_second_userfaultfd");
    let (Some(first), Some(second)) = (
        common::open(Features::PAGER),
        common::open(Features(Features::MOVE.0)),
    ) else {
        return;
    };
    let staging = Pages::map(1);
    common::register(&second, staging);
    let (memory, task) = replaced_behind_our_back(&first);

    let moved = common::move_pages(&second, staging, memory);
    assert_eq!(moved, common::all_moved(1), "unregistered memory is taken");
    assert!(staging.holds(0, 9), "it is the new memory's page");
    assert!(memory.holds(0, 0), "whose owner reads zeros");
    assert!(task.is_blocked(), "the event is unread all the time");
    common::next(&first);
    task.finish();
}

#[test]
fn staging_of_the_same_userfaultfd_takes_nothing() {
    let _begun = common::begin("one_userfaultfd");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let staging = Pages::map(1);
    common::register(&uffd, staging);
    let (memory, task) = replaced_behind_our_back(&uffd);

    let moved = common::move_pages(&uffd, staging, memory);
    assert_eq!(moved, common::refused(Errno::AGAIN));
    assert!(memory.holds(0, 9));
    common::next(&uffd);
    task.finish();
}
