//! Fact: `UFFDIO_POISON` wakes who waits for the page, with SIGBUS; every later touch raises it; a
//! system call gets EFAULT. The mark looks populated in the page map, and MOVE refuses it (EFAULT).
//!
//! Content whose checksum fails is answered so: the program stops at that page and never sees
//! wrong bytes. The pager may meet the mark again when it takes pages out.

use crate::common::{self, Ended, Pages, Task};
use coldpress_uffd::{Errno, Features};

#[test]
fn a_waiting_thread_gets_the_signal() {
    let _begun = common::begin("poison_wakes_with_sigbus");
    let ended = common::in_child(|| {
        let Some(uffd) = common::open(Features::PAGER) else {
            common::leave_child();
        };
        let memory = Pages::map(1);
        common::register(&uffd, memory);
        let reader = Task::start(move || memory.read(0));
        common::next(&uffd);
        assert_eq!(uffd.poison(memory.range()), Ok(common::PAGE));
        panic!("the reader goes on with {}", reader.finish());
    });
    if ended != Ended::Signal(libc::SIGBUS) {
        common::assert_well(ended);
    }
}

#[test]
fn a_later_touch_gets_the_signal() {
    let _begun = common::begin("poison_stays");
    let ended = common::in_child(|| {
        let Some(uffd) = common::open(Features::PAGER) else {
            common::leave_child();
        };
        let memory = Pages::map(2);
        common::register(&uffd, memory);
        assert_eq!(uffd.poison(memory.page(0).range()), Ok(common::PAGE));
        let (out, into) = common::pipe();
        common::write_all(into, &[1]);
        assert_eq!(common::read_into(out, memory, 1), Err(libc::EFAULT));
        panic!("reads {}", memory.read(0));
    });
    if ended != Ended::Signal(libc::SIGBUS) {
        common::assert_well(ended);
    }
}

#[test]
fn the_mark_does_not_move() {
    let _begun = common::begin("poison_does_not_move");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(2);
    let staging = Pages::map(2);
    common::register(&uffd, memory);
    common::register(&uffd, staging);
    assert_eq!(uffd.poison(memory.page(0).range()), Ok(common::PAGE));
    assert_eq!(memory.populated(), [0]);
    let moved = common::move_pages(&uffd, staging, memory);
    assert_eq!(moved, common::refused(Errno::FAULT));
    assert_eq!(staging.populated(), []);
}
