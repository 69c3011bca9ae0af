//! Fact: `UFFDIO_COPY` and `UFFDIO_ZEROPAGE` answer EEXIST where a page is already, change
//! nothing and wake nobody: a thread that has slept since before the page came sleeps on until
//! `UFFDIO_WAKE`.
//!
//! Two handlers may restore one page, and a page may arrive by a move, which wakes nobody: on
//! EEXIST the pager wakes.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Errno, Features, Message};

#[test]
fn it_wakes_nobody() {
    let _begun = common::begin("copying_to_a_present_page");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(1);
    common::register(&uffd, memory);
    let reader = Task::start(move || memory.read(0));
    let fault = common::next(&uffd);
    assert!(matches!(fault, Message::Fault { .. }), "{fault:?}");
    // The page comes from elsewhere, without a wake.
    let moved = common::move_pages(&uffd, memory, Pages::filled(1, 7));
    assert_eq!(moved, common::all_moved(1));
    assert!(reader.is_blocked(), "a move wakes");

    assert_eq!(common::copy(&uffd, memory, 0, 9), Err(Errno::EXIST));
    assert_eq!(uffd.zero(memory.range()), Err(Errno::EXIST));
    assert!(reader.is_blocked(), "a copy that fails wakes");
    uffd.wake(memory.range()).expect("waking");
    assert_eq!(reader.finish(), 7);
    assert!(memory.holds(0, 7));
}
