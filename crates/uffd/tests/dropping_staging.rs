//! Fact: `madvise(MADV_DONTNEED)` on registered memory waits until its REMOVE event was read,
//! also when the memory is the pager's own; unregister, `MADV_DONTNEED`, register raises no event
//! and waits for nobody.
//!
//! A pager thread that dropped registered staging would wait for the pager, that is for itself.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Features, Message};

#[test]
fn registered_staging_waits_for_a_reader() {
    let _begun = common::begin("dropping_registered_staging");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let staging = Pages::filled(4, 7);
    common::register(&uffd, staging);
    let task = Task::start(move || staging.advise(libc::MADV_DONTNEED));
    common::await_unread(&uffd);
    assert!(task.is_blocked());
    assert_eq!(common::next(&uffd), Message::Remove(staging.range()));
    assert_eq!(task.finish(), Ok(0));
}

#[test]
fn unregistered_staging_is_dropped_at_once() {
    let _begun = common::begin("dropping_unregistered_staging");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(4, 7);
    let staging = Pages::map(4);
    common::register(&uffd, memory);
    common::register(&uffd, staging);
    for round in 0..3 {
        if round > 0 {
            for n in 0..4 {
                common::copy(&uffd, memory, n, 7 + n as u64).expect("restoring");
            }
        }
        let moved = common::move_pages(&uffd, staging, memory);
        assert_eq!(moved, common::all_moved(4), "round {round}");
        // One slot is dropped, the others keep what they hold.
        common::unregister(&uffd, staging);
        assert_eq!(staging.page(2).advise(libc::MADV_DONTNEED), Ok(0));
        common::register(&uffd, staging);
        assert_eq!(staging.populated(), [0, 1, 3]);
        assert!([0, 1, 3].iter().all(|&n| staging.holds(n, 7 + n as u64)));
        common::unregister(&uffd, staging);
        assert_eq!(staging.advise(libc::MADV_DONTNEED), Ok(0));
        common::register(&uffd, staging);
        assert_eq!(staging.populated(), []);
    }
    assert!(common::is_silent(&uffd), "an event was raised");
}
