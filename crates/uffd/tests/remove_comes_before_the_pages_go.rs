//! Fact: `madvise(MADV_DONTNEED)` and `madvise(MADV_FREE)` send their REMOVE event first and drop
//! the pages after it was read.
//!
//! So there is a time after the event in which dropped content is still in place: the pager must
//! not take such a page for content (it moves only pages that it tracks), and must not put
//! remembered content back, which it therefore forgets at the event.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Features, Message};

#[test]
fn pages_are_there_until_the_event_was_read() {
    let _begun = common::begin("remove_comes_first");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(4, 70);
    common::register(&uffd, memory);
    let task = Task::start(move || memory.part(1, 2).advise(libc::MADV_DONTNEED));
    common::await_unread(&uffd);
    assert!(task.is_blocked());
    assert_eq!(memory.populated(), [0, 1, 2, 3]);
    assert!(memory.holds(1, 71) && memory.holds(2, 72));

    assert_eq!(
        common::next(&uffd),
        Message::Remove(memory.part(1, 2).range())
    );
    assert_eq!(task.finish(), Ok(0));
    assert_eq!(memory.populated(), [0, 3]);
    let reader = Task::start(move || memory.read(1));
    let fault = common::next(&uffd);
    assert!(matches!(fault, Message::Fault { .. }), "{fault:?}");
    uffd.zero(memory.page(1).range()).expect("answering");
    assert_eq!(reader.finish(), 0);
}

#[test]
fn freeing_sends_the_event_too() {
    let _begun = common::begin("free_sends_remove");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(4, 70);
    common::register(&uffd, memory);
    let task = Task::start(move || memory.part(1, 2).advise(libc::MADV_FREE));
    common::await_unread(&uffd);
    assert!(task.is_blocked());
    assert_eq!(
        common::next(&uffd),
        Message::Remove(memory.part(1, 2).range())
    );
    assert_eq!(task.finish(), Ok(0));
}
