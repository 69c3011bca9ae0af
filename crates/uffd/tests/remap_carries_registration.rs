//! Fact: `mremap` takes the registration along. A REMAP event tells old place, new place and the
//! length (the old one where the mapping grows); missing pages then fault at the new place. The
//! part by which a mapping grows is registered too, without further notice. UNMAP events come
//! along: for registered memory at the new place *before* the REMAP, for the old place *after*
//! it. The caller waits until the last of them was read; until then moves and copies are refused.
//!
//! The pager carries the content of the pages that are away over to the new place; without the
//! event the moved memory would read zeros. It relies on the order: an UNMAP of the new place
//! after the REMAP could make it forget what it has just carried there. (One of another thread may
//! come after it. So what has moved there is asked for.)

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Errno, Features, Message, Userfaultfd};

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

/// Reads the events of `from` moving to `to`.
fn read_events<T: Send + 'static>(uffd: &Userfaultfd, from: Pages, to: Pages, task: &Task<T>) {
    let event = Message::Remap {
        from: from.start,
        to: to.start,
        len: from.len(),
    };
    assert_eq!(common::next(uffd), event);
    assert!(task.is_blocked(), "the caller waits for the second event");
    assert_eq!(
        common::copy(uffd, to, 1, 0),
        Err(Errno::AGAIN),
        "between the events"
    );
    assert_eq!(common::next(uffd), Message::Unmap(from.range()));
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
    read_events(&uffd, memory, to, &task);
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
    read_events(&uffd, memory, to, &task);
    assert_eq!(task.finish(), Ok(()));
    let reader = Task::start(move || to.read(6));
    assert_fault(&uffd, to, 6);
    assert_eq!(reader.finish(), 96);
}

#[test]
fn what_was_at_the_new_place_goes_first() {
    let _begun = common::begin("remap_over_registered_memory");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = half_away(&uffd);
    let to = Pages::filled(4, 50);
    common::register(&uffd, to);
    let task = Task::start(move || memory.remap(to, 0));
    assert_eq!(common::next(&uffd), Message::Unmap(to.range()));
    read_events(&uffd, memory, to, &task);
    assert_eq!(task.finish(), Ok(()));
    assert!(to.holds(0, 70) && to.holds(2, 72));
}

#[test]
fn shrinking_tells_what_is_cut_off() {
    let _begun = common::begin("remap_shrinks");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = half_away(&uffd);
    let to = Pages::map(2);
    let task = Task::start(move || memory.remap(to, 0));
    let event = Message::Remap {
        from: memory.start,
        to: to.start,
        len: 2 * common::PAGE,
    };
    assert_eq!(common::next(&uffd), event);
    let mut cut = [common::next(&uffd), common::next(&uffd)];
    cut.sort_by_key(|message| match message {
        Message::Unmap(range) => range.start,
        other => panic!("{other:?}"),
    });
    let parts = [memory.part(0, 2), memory.part(2, 2)];
    assert_eq!(cut, parts.map(|part| Message::Unmap(part.range())));
    assert_eq!(task.finish(), Ok(()));
    assert!(to.holds(0, 70));
}

/// `MREMAP_DONTUNMAP` leaves the old place mapped and empty; it stays registered, and there is
/// no UNMAP event.
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
