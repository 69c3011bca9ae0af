//! Fact: a read gives pending faults first and events after them, in whatever order they came.
//!
//! A handler whose copy is answered EAGAIN must read on to reach the event, and what it reads
//! first are other threads' faults: it has to put them by. Copying again and again, or answering
//! those faults first, would never end.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Errno, Features, Message};

#[test]
fn an_event_waits_behind_later_faults() {
    let _begun = common::begin("faults_are_read_before_events");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let victim = Pages::filled(1, 7);
    let memory = Pages::map(2);
    common::register(&uffd, victim);
    common::register(&uffd, memory);
    let dropper = Task::start(move || victim.advise(libc::MADV_DONTNEED));
    common::await_unread(&uffd);
    let readers = [0, 1].map(|n| Task::start(move || memory.read(n)));
    readers.iter().for_each(Task::await_sleep);

    for _ in 0..2 {
        let message = common::next(&uffd);
        assert!(matches!(message, Message::Fault { .. }), "{message:?}");
        assert_eq!(common::copy(&uffd, memory, 0, 5), Err(Errno::AGAIN));
    }
    assert_eq!(common::next(&uffd), Message::Remove(victim.range()));
    assert_eq!(dropper.finish(), Ok(0));
    for n in 0..2 {
        common::copy(&uffd, memory, n, 5).expect("restoring");
    }
    assert_eq!(readers.map(Task::finish), [5, 5]);
}
