//! Fact: a page that was given up by `MADV_FREE` before its memory was registered can be moved, and keeps that mark: the
//! kernel may drop it where it was moved to, until something is written to it there. A destination that is registered for
//! write protection alone takes moves as well, and there the kernel fills what is missing: nobody sleeps, nothing is told.
//!
//! So a page may vanish from staging while it is read. A thread of the pager that met the hole within the gate would wait
//! for ever, and what was compressed would be half of one content and half of another. Each page is written to as it is
//! once it has been taken, in staging that is registered in that way.

use crate::common::{self, Pages};
use coldpress_uffd::{Features, Userfaultfd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `MADV_PAGEOUT`: reclaims the range now.
const MADV_PAGEOUT: i32 = 21;

fn register_as_destination(uffd: &Userfaultfd, staging: Pages) {
    // SAFETY: the test's own memory; nothing is write-protected.
    let registered = unsafe { uffd.register_as_destination(staging.range()) };
    assert_eq!(registered, Ok(()), "registering the destination");
}

/// Memory that is given up, and was moved to a destination afterwards.
fn moved_to_staging(uffd: &Userfaultfd) -> (Pages, Pages) {
    let (memory, staging) = (Pages::filled(4, 70), Pages::map(4));
    assert_eq!(memory.advise(libc::MADV_FREE), Ok(0));
    common::register(uffd, memory);
    register_as_destination(uffd, staging);
    let moved = common::move_pages(uffd, staging, memory);
    assert_eq!(moved, common::all_moved(4));
    (memory, staging)
}

/// Writes the first word of a page as it is.
fn settle(page: Pages) {
    // SAFETY: a mapped page of the test.
    let word = unsafe { AtomicU64::from_ptr(page.pointer(0).cast()) };
    let mut seen = word.load(Relaxed);
    while let Err(now) = word.compare_exchange(seen, seen, Relaxed, Relaxed) {
        seen = now;
    }
}

#[test]
fn what_was_given_up_may_vanish_where_it_was_moved_to() {
    let _begun = common::begin("a_moved_page_may_vanish");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    // Where this thread has changed its processor the kernel has not dealt with the advice yet.
    let vanished = (0..50).find_map(|_| {
        let (_, staging) = moved_to_staging(&uffd);
        assert_eq!(staging.advise(MADV_PAGEOUT), Ok(0));
        let left = staging.populated();
        (left.len() < 4).then_some((staging, left))
    });
    let (staging, left) = vanished.expect("the kernel drops what is given up");
    // No message is waited for: the kernel fills what is missing.
    assert!((0..4).all(|n| left.contains(&n) || staging.holds(n, 0)));
    assert!(common::is_silent(&uffd), "a fault was told of");
}

#[test]
fn what_was_written_to_stays() {
    let _begun = common::begin("a_settled_page_stays");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let (memory, staging) = moved_to_staging(&uffd);
    (0..4).for_each(|n| settle(staging.page(n)));
    assert_eq!(staging.advise(MADV_PAGEOUT), Ok(0));
    assert_eq!(staging.populated(), [0, 1, 2, 3]);
    assert!((0..4).all(|n| staging.holds(n, 70 + n as u64)));
    // And they go back where they came from.
    let moved = common::move_pages(&uffd, memory, staging);
    assert_eq!(moved, common::all_moved(4));
    assert!((0..4).all(|n| memory.holds(n, 70 + n as u64)));
}

#[test]
fn a_destination_counts_as_registered() {
    let _begun = common::begin("a_destination_counts_as_registered");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let (memory, staging) = (Pages::filled(4, 70), Pages::map(4));
    register_as_destination(&uffd, staging);
    assert_eq!(uffd.is_registered(staging.range()), Ok(true));
    // Registered once more for missing pages, it is registered for these.
    common::register(&uffd, staging);
    common::register(&uffd, memory);
    let reader = common::Task::start(move || staging.read(1));
    let fault = common::next(&uffd);
    assert!(
        matches!(fault, coldpress_uffd::Message::Fault { .. }),
        "{fault:?}"
    );
    uffd.zero(staging.page(1).range()).expect("answering");
    assert_eq!(reader.finish(), 0);
}
