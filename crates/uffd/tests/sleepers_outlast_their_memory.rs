//! Fact: a thread that sleeps on a missing page sleeps on when its memory is unmapped, moved away, replaced by memory that
//! moves there, or guarded: none of these calls wakes anybody. A fault of it that nobody has read is told afterwards,
//! whatever lies at the address by then.
//!
//! So the pager wakes threads wherever it gives up to answer: where a copy finds no such memory, or a page that is there
//! already, where it forgets what it was about to put in place, and at both ends of a move.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Features, Message, Userfaultfd};

/// A thread sleeps on page 1 of four, and its fault was read.
fn asleep(uffd: &Userfaultfd) -> (Pages, Task<u64>) {
    let memory = Pages::map(4);
    common::register(uffd, memory);
    let reader = Task::start(move || memory.read(1));
    assert_fault(uffd, memory);
    (memory, reader)
}

fn assert_fault(uffd: &Userfaultfd, memory: Pages) {
    let fault = common::next(uffd);
    assert!(
        matches!(fault, Message::Fault { address, .. } if address == memory.page(1).start),
        "{fault:?}"
    );
}

/// It sleeps on, whatever was done; woken, it reads `content`.
fn assert_sleeps_until_woken(
    uffd: &Userfaultfd,
    memory: Pages,
    reader: Task<u64>,
    done: &str,
    content: u64,
) {
    assert!(reader.is_blocked(), "{done} wakes");
    uffd.wake(memory.page(1).range()).expect("waking");
    assert_eq!(reader.finish(), content);
}

#[test]
fn memory_that_is_unmapped() {
    let _begun = common::begin("sleepers_of_unmapped_memory");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let (memory, reader) = asleep(&uffd);
    let part = memory.part(1, 2);
    let task = Task::start(move || part.unmap());
    common::await_unread(&uffd);
    part.map_again();
    assert_eq!(common::next(&uffd), Message::Unmap(part.range()));
    task.finish();
    assert_sleeps_until_woken(&uffd, memory, reader, "unmapping", 0);
}

#[test]
fn memory_that_moves_away() {
    let _begun = common::begin("sleepers_of_moved_memory");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    for flags in [0, libc::MREMAP_DONTUNMAP] {
        let (memory, reader) = asleep(&uffd);
        let to = Pages::map(4);
        let task = Task::start(move || memory.remap(to, flags));
        common::await_unread(&uffd);
        if flags == 0 {
            memory.map_again();
        }
        let event = common::next(&uffd);
        assert!(matches!(event, Message::Remap { .. }), "{event:?}");
        if flags == 0 {
            assert_eq!(common::next(&uffd), Message::Unmap(memory.range()));
        }
        assert_eq!(task.finish(), Ok(()));
        assert!(reader.is_blocked(), "moving wakes");
        common::copy(&uffd, to, 1, 7).expect("where the page is now");
        assert!(reader.is_blocked(), "what comes to the new place wakes");
        uffd.wake(memory.page(1).range()).expect("waking");
        if flags != 0 {
            // The old place is registered still.
            assert_fault(&uffd, memory);
            uffd.zero(memory.page(1).range()).expect("answering");
        }
        assert_eq!(reader.finish(), 0);
    }
}

#[test]
fn memory_that_something_moves_onto() {
    let _begun = common::begin("sleepers_of_replaced_memory");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let (memory, reader) = asleep(&uffd);
    let from = Pages::filled(4, 70);
    common::register(&uffd, from);
    let task = Task::start(move || from.remap(memory, 0));
    assert_eq!(common::next(&uffd), Message::Unmap(memory.range()));
    let event = common::next(&uffd);
    assert!(matches!(event, Message::Remap { .. }), "{event:?}");
    assert_eq!(common::next(&uffd), Message::Unmap(from.range()));
    assert_eq!(task.finish(), Ok(()));
    assert_sleeps_until_woken(&uffd, memory, reader, "a page that moves there", 71);
}

#[test]
fn a_fault_outlasts_its_memory() {
    let _begun = common::begin("faults_of_unmapped_memory");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(4);
    common::register(&uffd, memory);
    let reader = Task::start(move || memory.read(1));
    common::await_unread(&uffd);
    let part = memory.part(1, 2);
    let task = Task::start(move || part.unmap());
    assert!(task.is_blocked());
    part.map_again();
    assert_fault(&uffd, memory);
    assert_eq!(common::next(&uffd), Message::Unmap(part.range()));
    task.finish();
    assert_sleeps_until_woken(&uffd, memory, reader, "unmapping", 0);
}

#[test]
fn memory_that_is_guarded() {
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    const MADV_GUARD_REMOVE: libc::c_int = 103;
    let _begun = common::begin("sleepers_of_guarded_memory");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    if !common::kernel_is_at_least(6, 13) {
        return common::skipped("this kernel has no guards");
    }
    let (memory, reader) = asleep(&uffd);
    assert_eq!(memory.advise(MADV_GUARD_INSTALL), Ok(0));
    assert!(reader.is_blocked(), "a guard wakes");
    assert_eq!(memory.advise(MADV_GUARD_REMOVE), Ok(0));
    assert!(reader.is_blocked(), "the end of a guard wakes");
    uffd.zero(memory.page(1).range()).expect("answering");
    assert_eq!(reader.finish(), 0);
}
