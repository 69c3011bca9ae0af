//! Fact: `madvise(MADV_GUARD_INSTALL)` (Linux 6.13) drops the pages of registered memory without
//! any event; a touch raises SIGSEGV and no fault message.
//!
//! A guard is a mark in the page table: the page map calls it a populated (swapped) page, MOVE
//! refuses it with EFAULT, but COPY puts a page in its place.
//!
//! The pager has to learn of it from a wrapper of `madvise`, and must forget what it remembers
//! there: once the guard is removed, the memory reads zeros, and a page restored too late would
//! take the guard away. It must take EFAULT for an ordinary outcome.

use crate::common::{self, Ended, Pages, Task};
use coldpress_uffd::{Errno, Features, Message};

const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

/// Installs a guard at page 0, or says loudly that there are none.
fn guard(memory: Pages) -> bool {
    match memory.page(0).advise(MADV_GUARD_INSTALL) {
        Err(libc::EINVAL) => {
            common::skipped("no guard regions before Linux 6.13");
            false
        }
        result => {
            assert_eq!(result, Ok(0));
            true
        }
    }
}

#[test]
fn a_mark_looks_populated_and_does_not_move() {
    let _begun = common::begin("guards_look_populated");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(3, 7);
    let staging = Pages::map(3);
    common::register(&uffd, memory);
    common::register(&uffd, staging);
    if !guard(memory) {
        return;
    }
    assert_eq!(memory.populated(), [0, 1, 2]);
    let moved = common::move_pages(&uffd, staging, memory);
    assert_eq!(moved, common::refused(Errno::FAULT));
    let others = common::move_pages(&uffd, staging.part(1, 2), memory.part(1, 2));
    assert_eq!(others, common::all_moved(2));
    assert_eq!(common::copy(&uffd, memory, 0, 9), Ok(common::PAGE));
    assert!(memory.holds(0, 9), "the guard is gone");
}

#[test]
fn guards_are_silent() {
    let _begun = common::begin("guards_come_without_an_event");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(2, 7);
    common::register(&uffd, memory);
    if !guard(memory) {
        return;
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
