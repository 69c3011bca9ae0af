//! Fact: `mremap` of locked memory to another place populates what it has grown by before it tells of the move. Its own
//! touch of the first new page is read like any other, and until the move is told nothing can be put in place there: the
//! call would wait for ever. Unregistering the new part lets it go on.
//!
//! Which thread is in such a call, and by how much it makes the memory longer, `/proc/TID/syscall` says. Memory
//! that grows where it lies is populated, too, and nothing forbids the answer.

use crate::common::{self, PAGE, Pages, Task};
use coldpress_uffd::{Errno, Features, Message, Userfaultfd};

/// Registers and locks four pages that are there.
fn lock(uffd: &Userfaultfd, memory: Pages) {
    common::register(uffd, memory);
    // SAFETY: the test's own memory; no content changes.
    let result = unsafe { libc::mlock(memory.pointer(0), memory.len()) };
    assert_eq!(result, 0, "mlock: {}", common::errno());
}

/// The thread whose touch of page `n` is read next.
fn toucher(uffd: &Userfaultfd, pages: Pages, n: usize) -> u32 {
    match common::next(uffd) {
        Message::Fault {
            address, thread, ..
        } if address == pages.start + n * PAGE => thread,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_waits_for_a_page_that_nobody_can_put_in_place() {
    let _begun = common::begin("locked_growth_elsewhere");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(4, 30);
    lock(&uffd, memory);
    let to = Pages::map(9);
    let task = Task::start(move || (common::thread_id(), memory.remap(to, 0)));
    let thread = toucher(&uffd, to, 4);
    assert!(common::is_silent(&uffd), "nothing is told of the move yet");
    assert_eq!(common::copy(&uffd, to, 4, 1), Err(Errno::AGAIN));
    let call = std::fs::read_to_string(format!("/proc/{thread}/syscall"));
    let call = call.expect("the file of a thread of this process");
    let expected = format!(
        "{} {:#x} {:#x} {:#x} ",
        libc::SYS_mremap,
        memory.start,
        memory.len(),
        to.len()
    );
    assert!(call.starts_with(&expected), "{call}, not {expected}");
    common::unregister(&uffd, to.part(4, 5));
    let told = Message::Remap {
        from: memory.start,
        to: to.start,
        len: memory.len(),
    };
    assert_eq!(common::next(&uffd), told);
    assert_eq!(common::next(&uffd), Message::Unmap(memory.range()));
    assert_eq!(task.finish(), (thread, Ok(())));
    assert!(to.holds(0, 30) && to.holds(3, 33));
    assert_eq!(to.part(4, 5).populated(), [0, 1, 2, 3, 4]);
    assert_eq!(uffd.is_registered(to.part(0, 4).range()), Ok(true));
    assert_eq!(uffd.is_registered(to.page(4).range()), Ok(false));
}

#[test]
fn it_is_answered_where_the_memory_stays() {
    let _begun = common::begin("locked_growth_in_place");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let all = Pages::filled(6, 30);
    let memory = all.part(0, 4);
    all.part(4, 2).unmap();
    lock(&uffd, memory);
    // SAFETY: the memory grows to where the test has unmapped its own.
    let grow = move || unsafe { libc::mremap(memory.pointer(0), memory.len(), all.len(), 0) };
    let task = Task::start(move || (common::thread_id(), grow() as usize));
    let first = toucher(&uffd, all, 4);
    assert_eq!(common::copy(&uffd, all, 4, 54), Ok(PAGE));
    let second = toucher(&uffd, all, 5);
    assert_eq!(common::copy(&uffd, all, 5, 55), Ok(PAGE));
    assert_eq!((first, memory.start), task.finish());
    assert_eq!(first, second);
    assert!(all.holds(3, 33) && all.holds(4, 54) && all.holds(5, 55));
}
