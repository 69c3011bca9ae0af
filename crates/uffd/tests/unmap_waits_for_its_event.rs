//! Fact: `munmap` of registered memory, and a mapping placed over it, give an UNMAP event, and
//! the caller goes on only when that was read. The memory is gone before: its addresses may hold
//! something else already when the event is read.
//!
//! Because the caller waits, the thread that unmapped never meets old content at a reused
//! address; because the memory is gone before, the pager may not rely on anything about a range
//! while an event could be unread.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Features, Message};

#[test]
fn munmap_waits() {
    let _begun = common::begin("munmap_waits");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(4, 7);
    common::register(&uffd, memory);
    let task = Task::start(move || memory.part(1, 2).unmap());
    common::await_unread(&uffd);
    assert!(task.is_blocked());
    memory.part(1, 2).map_again();
    assert_eq!(memory.read(1), 0, "the address holds new memory already");
    assert_eq!(
        common::next(&uffd),
        Message::Unmap(memory.part(1, 2).range())
    );
    task.finish();
    assert!(
        common::is_silent(&uffd),
        "what is there now is not registered"
    );
    assert_eq!(memory.read(2), 0);
}

#[test]
fn mapping_over_it_waits() {
    let _begun = common::begin("mapping_over_waits");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(4, 7);
    common::register(&uffd, memory);
    let task = Task::start(move || memory.part(1, 2).map_over());
    common::await_unread(&uffd);
    assert!(task.is_blocked());
    assert_eq!(
        common::next(&uffd),
        Message::Unmap(memory.part(1, 2).range())
    );
    task.finish();
    assert_eq!(memory.read(1), 0);
}
