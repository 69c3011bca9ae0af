//! Fact: `UFFDIO_POISON` wakes who waits for the page, with SIGBUS; so does every later touch; a
//! system call gets EFAULT (or what it gives for bad addresses).
//!
//! Content whose checksum fails is answered so: the program stops at that page and never sees
//! wrong bytes.

mod common;

use coldpress_uffd::Features;
use common::{Ended, Pages, Task};

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
