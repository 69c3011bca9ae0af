//! Fact: when the last descriptor of a userfaultfd is closed, and when a range is unregistered,
//! the threads that sleep there wake up and read zeros.
//!
//! A program that closed the pager's descriptor would go on with wrong bytes and no error: the
//! pager keeps its descriptors in a table that the program does not reach, and never unregisters
//! memory whose content it holds.

use crate::common::{self, Pages, Task};
use coldpress_uffd::Features;

#[test]
fn closing_wakes_readers_with_zeros() {
    let _begun = common::begin("the_last_close_gives_zeros");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(2);
    common::register(&uffd, memory);
    let readers = [0, 1].map(|n| Task::start(move || memory.read(n)));
    // One fault has been read, the other has not.
    common::next(&uffd);
    assert!(readers.iter().all(Task::is_blocked));
    drop(uffd);
    assert_eq!(readers.map(Task::finish), [0, 0]);
}

#[test]
fn unregistering_wakes_readers_with_zeros() {
    let _begun = common::begin("unregistering_gives_zeros");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(1);
    common::register(&uffd, memory);
    let reader = Task::start(move || memory.read(0));
    common::next(&uffd);
    assert!(reader.is_blocked());
    common::unregister(&uffd, memory);
    assert_eq!(reader.finish(), 0);
}
