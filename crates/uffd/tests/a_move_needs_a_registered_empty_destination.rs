//! Fact: `UFFDIO_MOVE` goes only to memory registered with the userfaultfd it is called on
//! (EINVAL otherwise, ENOENT where nothing is mapped), and only to empty places (EEXIST). The
//! source need not be registered.
//!
//! Staging is therefore registered as long as pages are moved there, and a slot is dropped before
//! it is filled again; a forgotten slot is an error, never an overwritten page.

use crate::common::{self, Pages};
use coldpress_uffd::{Errno, Features};

#[test]
fn other_destinations_are_refused() {
    let _begun = common::begin("a_move_needs_a_registered_empty_destination");
    let (Some(uffd), Some(other)) = (common::open(Features::PAGER), common::open(Features::PAGER))
    else {
        return;
    };
    let memory = Pages::filled(2, 70);
    let staging = Pages::map(2);
    let try_it = || common::move_pages(&uffd, staging, memory);
    assert_eq!(
        try_it(),
        common::refused(Errno::INVAL),
        "registered with none"
    );

    common::register(&other, staging);
    assert_eq!(
        try_it(),
        common::refused(Errno::INVAL),
        "registered with another"
    );
    common::unregister(&other, staging);

    let nowhere = Pages::map(2);
    nowhere.unmap();
    let moved = common::move_pages(&uffd, nowhere, memory);
    assert_eq!(moved, common::refused(Errno::NOENT), "not mapped");

    staging.fill(0, 5);
    common::register(&uffd, staging);
    assert_eq!(try_it(), common::refused(Errno::EXIST), "not empty");
    assert!(
        memory.holds(0, 70) && staging.holds(0, 5),
        "nothing has changed"
    );

    let rest = common::move_pages(&uffd, staging.page(1), memory.page(1));
    assert_eq!(rest, common::all_moved(1), "registered and empty");
    assert!(staging.holds(1, 71));
}
