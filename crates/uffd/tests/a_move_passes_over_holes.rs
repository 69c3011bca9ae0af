//! Fact: `UFFDIO_MOVE` with ALLOW_SRC_HOLES passes over pages that are not there and counts them
//! as done; what was there arrives at the same offset, is missing at the source at once, and the
//! destination stays empty where the source was.
//!
//! The pager moves runs of pages with one call (one TLB shootdown), whatever lies between them,
//! and looks afterwards which staging slots are filled.

mod common;

use coldpress_uffd::{Features, Message};
use common::{Pages, Task};

#[test]
fn holes_count_as_done() {
    let _begun = common::begin("a_move_passes_over_holes");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(8);
    let staging = Pages::map(8);
    for n in [1, 2, 5] {
        memory.fill(n, 70 + n as u64);
    }
    common::register(&uffd, memory);
    common::register(&uffd, staging);
    assert_eq!(
        common::move_pages(&uffd, staging, memory),
        common::all_moved(8)
    );
    assert_eq!(staging.populated(), [1, 2, 5]);
    assert_eq!(memory.populated(), []);
    assert!([1, 2, 5].iter().all(|&n| staging.holds(n, 70 + n as u64)));

    // Nothing but holes is all done, too.
    let other = Pages::map(8);
    common::register(&uffd, other);
    assert_eq!(
        common::move_pages(&uffd, other, memory),
        common::all_moved(8)
    );
    assert_eq!(other.populated(), []);

    let reader = Task::start(move || memory.read(5));
    let fault = common::next(&uffd);
    assert!(
        matches!(fault, Message::Fault { address, .. } if address == memory.page(5).start),
        "{fault:?}"
    );
    common::copy(&uffd, memory, 5, 99).expect("restoring");
    assert_eq!(reader.finish(), 99);
}

/// What a program has only ever read (a mapping of the kernel's zero page) does not stop a run
/// either, and leaves a slot that does not count as filled.
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
