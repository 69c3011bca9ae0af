//! Fact: one `UFFDIO_COPY` fills neighbours in order, stops where a page is already, and tells how much it has filled;
//! who waits for one of these pages is awake.
//!
//! The pager restores pages that lie beside each other by one call, and looks after the page at which it stopped alone.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Features, Message, PAGE_SIZE};

#[test]
fn it_tells_how_far_it_came() {
    let _begun = common::begin("copying_neighbours_stops");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(4);
    common::register(&uffd, memory);
    assert_eq!(common::copy(&uffd, memory, 2, 5), Ok(PAGE_SIZE));
    let reader = Task::start(move || memory.read(1));
    let fault = common::next(&uffd);
    assert!(matches!(fault, Message::Fault { .. }), "{fault:?}");

    let content = Pages::filled(4, 9);
    let from = content.pointer(0).cast_const().cast();
    // SAFETY: pages of the test, which are not registered.
    let copied = unsafe { uffd.copy(memory.range().start, from, memory.len()) };
    assert_eq!(copied, Ok(2 * PAGE_SIZE));
    assert_eq!(reader.finish(), 10);
    assert!(memory.holds(0, 9) && memory.holds(1, 10) && memory.holds(2, 5));
    assert_eq!(memory.populated(), [0, 1, 2]);
}
