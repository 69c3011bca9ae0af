//! Fact: `mremap` takes the registration along. A REMAP event tells old place, new place and the
//! old length, and the caller waits until it was read; missing pages then fault at the new place.
//! The part by which a mapping grows is registered too, without further notice.
//!
//! The pager carries the content of the pages that are away over to the new place; without the
//! event the moved memory would read zeros.

mod common;

use coldpress_uffd::{Features, Message, Userfaultfd};
use common::{Pages, Task};

/// Four pages of which 1 and 3 were taken away.
fn half_away(uffd: &Userfaultfd) -> Pages {
    let memory = Pages::filled(4, 70);
    let staging = Pages::map(4);
    common::register(uffd, memory);
    common::register(uffd, staging);
    for n in [1, 3] {
        let moved = common::move_pages(uffd, staging.page(n), memory.page(n));
        assert_eq!(moved, common::all_moved(1));
    }
    memory
}

fn assert_fault(uffd: &Userfaultfd, pages: Pages, n: usize) {
    let fault = common::next(uffd);
    assert!(
        matches!(fault, Message::Fault { address, .. } if address == pages.start + n * common::PAGE),
        "{fault:?}"
    );
    common::copy(uffd, pages, n, 90 + n as u64).expect("restoring");
}

#[test]
fn the_event_tells_where_the_memory_went() {
    let _begun = common::begin("remap_moves");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = half_away(&uffd);
    let to = Pages::map(4);
    let task = Task::start(move || memory.remap(to, 0));
    common::await_unread(&uffd);
    assert!(task.is_blocked(), "the caller waits");
    let event = Message::Remap {
        from: memory.start,
        to: to.start,
        len: 4 * common::PAGE,
    };
    assert_eq!(common::next(&uffd), event);
    assert_eq!(task.finish(), Ok(()));
    assert!(to.holds(0, 70) && to.holds(2, 72));
    for n in [1, 3] {
        let reader = Task::start(move || to.read(n));
        assert_fault(&uffd, to, n);
        assert_eq!(reader.finish(), 90 + n as u64);
    }
}

#[test]
fn growing_registers_what_is_added() {
    let _begun = common::begin("remap_grows");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = half_away(&uffd);
    let to = Pages::map(8);
    let task = Task::start(move || memory.remap(to, 0));
    let event = Message::Remap {
        from: memory.start,
        to: to.start,
        len: 4 * common::PAGE,
    };
    assert_eq!(common::next(&uffd), event, "the length is the old one");
    assert_eq!(task.finish(), Ok(()));
    let reader = Task::start(move || to.read(6));
    assert_fault(&uffd, to, 6);
    assert_eq!(reader.finish(), 96);
}

/// `MREMAP_DONTUNMAP` leaves the old place mapped and empty; it stays registered.
#[test]
fn what_is_left_behind_stays_registered() {
    let _begun = common::begin("remap_dontunmap");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = half_away(&uffd);
    let to = Pages::map(4);
    let task = Task::start(move || memory.remap(to, libc::MREMAP_DONTUNMAP));
    let event = common::next(&uffd);
    assert!(matches!(event, Message::Remap { .. }), "{event:?}");
    assert_eq!(task.finish(), Ok(()));
    assert!(to.holds(0, 70) && to.holds(2, 72));
    let reader = Task::start(move || memory.read(0));
    assert_fault(&uffd, memory, 0);
    assert_eq!(reader.finish(), 90);
}
