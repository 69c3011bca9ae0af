//! Fact: `madvise(MADV_GUARD_INSTALL)` (Linux 6.13) drops the pages of registered memory without
//! any event; a touch raises SIGSEGV and no fault message.
//!
//! The pager has to learn of it from a wrapper of `madvise`, and must forget what it remembers
//! there: once the guard is removed, the memory reads zeros.

mod common;

use coldpress_uffd::{Features, Message};
use common::{Ended, Pages, Task};

const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

#[test]
fn guards_are_silent() {
    let _begun = common::begin("guards_come_without_an_event");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(2, 7);
    common::register(&uffd, memory);
    match memory.page(0).advise(MADV_GUARD_INSTALL) {
        Err(libc::EINVAL) => return common::skipped("no guard regions before Linux 6.13"),
        result => assert_eq!(result, Ok(0)),
    }
    assert!(common::is_silent(&uffd));
    let touched = common::in_child(move || {
        memory.read(0);
    });
    assert_eq!(touched, Ended::Signal(libc::SIGSEGV));
    assert_eq!(memory.page(0).advise(MADV_GUARD_REMOVE), Ok(0));
    assert!(common::is_silent(&uffd));
    let reader = Task::start(move || memory.read(0));
    let fault = common::next(&uffd);
    assert!(matches!(fault, Message::Fault { .. }), "{fault:?}");
    uffd.zero(memory.page(0).range()).expect("answering");
    assert_eq!(reader.finish(), 0);
}
