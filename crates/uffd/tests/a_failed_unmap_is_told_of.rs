//! Fact: a call that would replace or unmap registered memory, and fails, may give an UNMAP event all the same (Linux
//! 6.12 and later): the memory is there as before, registered and with its content.
//!
//! So an UNMAP event does not say that memory is gone. Whether it is tells `UFFDIO_CONTINUE` of another userfaultfd of
//! the process, with which nothing is registered: its answers wait for no event.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Errno, Features, Message, Userfaultfd};

/// Tries to map 2^46 bytes over the memory. Whether that was refused.
fn map_too_much_over(memory: Pages) -> bool {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let len = 1 << 46;
    let at = memory.range().start as *mut libc::c_void;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call fails, since the limit allows less; the limit is what it was afterwards.
    unsafe {
        libc::getrlimit(libc::RLIMIT_AS, &mut limit);
        let low = libc::rlimit {
            rlim_cur: 1 << 45,
            ..limit
        };
        libc::setrlimit(libc::RLIMIT_AS, &low);
        let result = libc::mmap(at, len, rights, flags, -1, 0);
        libc::setrlimit(libc::RLIMIT_AS, &limit);
        result == libc::MAP_FAILED
    }
}

/// Four pages full of 7, registered with a userfaultfd that has a witness.
fn registered() -> Option<(Userfaultfd, Pages)> {
    let (uffd, witness) = (
        common::open(Features::PAGER)?,
        common::open(Features::NONE)?,
    );
    let mut uffd = uffd.with_witness(Some(witness));
    let memory = Pages::filled(4, 7);
    common::register(&uffd, memory);
    uffd.check_witness(memory.range());
    Some((uffd, memory))
}

#[test]
fn a_mapping_that_is_refused_is_told_of() {
    let _begun = common::begin("a_mapping_that_is_refused");
    let Some((uffd, memory)) = registered() else {
        return;
    };
    let task = Task::start(move || map_too_much_over(memory));
    common::wait_until("the call ends or waits", || {
        task.is_done() || uffd.is_registered(memory.range()) == Err(Errno::AGAIN)
    });
    assert_eq!(uffd.is_registered_now(memory.range()), Ok(true));
    if task.is_blocked() {
        assert!(
            matches!(common::next(&uffd), Message::Unmap(range) if range.start == memory.range().start)
        );
        common::say("a mapping that was refused is told of here");
    }
    assert!(task.finish(), "the kernel refuses it");
    assert_eq!(uffd.is_registered(memory.range()), Ok(true));
    assert!(memory.holds(0, 7));
}

/// The witness tells what is registered by another, in the middle of a change.
#[test]
fn a_witness_waits_for_no_event() {
    let _begun = common::begin("a_witness");
    let Some((uffd, memory)) = registered() else {
        return;
    };
    let task = Task::start(move || memory.part(1, 2).unmap());
    common::await_unread(&uffd);
    assert_eq!(
        uffd.is_registered(memory.part(0, 1).range()),
        Err(Errno::AGAIN)
    );
    assert_eq!(uffd.is_registered_now(memory.part(0, 1).range()), Ok(true));
    assert_eq!(uffd.is_registered_now(memory.part(1, 2).range()), Ok(false));
    memory.part(1, 2).map_again();
    assert_eq!(uffd.is_registered_now(memory.part(1, 2).range()), Ok(false));
    common::next(&uffd);
    task.finish();
}
