//! Fact: `UFFDIO_MOVE` without ALLOW_SRC_HOLES stops at a page that is not there and says ENOENT;
//! what was there before it has arrived, and is missing at the source at once.
//!
//! The pager moves stretches of neighbours with one call each (one TLB shootdown), goes on behind
//! a hole that it did not know of, and looks afterwards which staging slots are filled. It does
//! not ask for holes to be passed over: see `a_move_may_not_tell_of_all.rs`.

use crate::common::{self, PAGE, Pages, Task};
use coldpress_uffd::{Errno, Features, Message, Moved};

#[test]
fn a_hole_divides_the_run() {
    let _begun = common::begin("a_move_stops_at_holes");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(4);
    let staging = Pages::map(4);
    for n in [0, 1, 3] {
        memory.fill(n, 70 + n as u64);
    }
    common::register(&uffd, memory);
    common::register(&uffd, staging);
    let two = Moved {
        bytes: 2 * PAGE,
        stopped: Some(Errno::AGAIN),
    };
    assert_eq!(common::move_pages(&uffd, staging, memory), two);
    assert_eq!(
        common::move_pages(&uffd, staging.part(2, 2), memory.part(2, 2)),
        common::refused(Errno::NOENT)
    );
    assert_eq!(
        common::move_pages(&uffd, staging.page(3), memory.page(3)),
        common::all_moved(1)
    );
    assert_eq!(staging.populated(), [0, 1, 3]);
    assert_eq!(memory.populated(), []);
    assert!([0, 1, 3].iter().all(|&n| staging.holds(n, 70 + n as u64)));

    let reader = Task::start(move || memory.read(3));
    let fault = common::next(&uffd);
    assert!(
        matches!(fault, Message::Fault { address, .. } if address == memory.page(3).start),
        "{fault:?}"
    );
    common::copy(&uffd, memory, 3, 99).expect("restoring");
    assert_eq!(reader.finish(), 99);
}

/// What a program has only ever read (a mapping of the kernel's zero page) does not stop a run,
/// and leaves a slot that does not count as filled.
#[test]
fn zero_page_mappings_count_as_done() {
    let _begun = common::begin("a_move_passes_over_zero_pages");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(3);
    let staging = Pages::map(3);
    memory.fill(0, 70);
    memory.fill(2, 72);
    assert_eq!(memory.read(1), 0);
    common::register(&uffd, memory);
    common::register(&uffd, staging);
    assert_eq!(
        common::move_pages(&uffd, staging, memory),
        common::all_moved(3)
    );
    assert_eq!(staging.populated(), [0, 2]);
    assert!(staging.holds(0, 70) && staging.holds(2, 72));
}
