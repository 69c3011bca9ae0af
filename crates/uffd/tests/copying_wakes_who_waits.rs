//! Fact: `UFFDIO_COPY` and `UFFDIO_ZEROPAGE` fill a missing page and wake all threads that wait
//! for it, whether their fault message was read or not; after ZEROPAGE a write works like any
//! first write. A wake without a page makes the thread fault again.
//!
//! One answer serves every thread at a page; faults may be put off by waking.

use crate::common::{self, PAGE, Pages, Task};
use coldpress_uffd::{Features, Message};

#[test]
fn one_answer_serves_all() {
    let _begun = common::begin("copying_wakes_who_waits");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(2);
    common::register(&uffd, memory);
    for (n, value) in [(0, 7), (1, 0)] {
        let readers = [0; 3].map(|_| Task::start(move || memory.read(n)));
        readers.iter().for_each(Task::await_sleep);
        common::next(&uffd);
        let done = match value {
            0 => uffd.zero(memory.page(n).range()),
            _ => common::copy(&uffd, memory, n, value),
        };
        assert_eq!(done, Ok(PAGE));
        assert_eq!(readers.map(Task::finish), [value; 3]);
    }
    assert!(
        common::is_silent(&uffd),
        "answered faults are not announced"
    );
    memory.fill(1, 5);
    assert!(memory.holds(1, 5));
    assert!(common::is_silent(&uffd), "writing to the zero page faults");
}

#[test]
fn a_wake_without_a_page_asks_again() {
    let _begun = common::begin("waking_asks_again");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(1);
    common::register(&uffd, memory);
    let reader = Task::start(move || memory.read(0));
    let fault = common::next(&uffd);
    uffd.wake(memory.range()).expect("waking");
    assert_eq!(common::next(&uffd), fault);
    assert!(matches!(fault, Message::Fault { .. }), "{fault:?}");
    assert_eq!(common::copy(&uffd, memory, 0, 7), Ok(PAGE));
    assert_eq!(reader.finish(), 7);
}
