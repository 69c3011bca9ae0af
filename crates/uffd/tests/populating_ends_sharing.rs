//! Fact: a page that a fork has shared, and that no other process has any more, is this process's own again when
//! `MADV_POPULATE_WRITE` has faulted it in for writing: it keeps frame and content, and `UFFDIO_MOVE` takes it. One that
//! a child still has becomes a copy, and the child keeps the other. Memory that may not be written stays as it is.
//!
//! The pager may rely on it to evict what a program held when it forked, without writing to it.

use crate::common::{self, Child, PAGE, Pages};
use coldpress_uffd::{Errno, Features};
use std::os::unix::fs::FileExt;

/// The frame of a page; 0: only root is told.
fn frame(pages: Pages, n: usize) -> u64 {
    let file = std::fs::File::open("/proc/self/pagemap").unwrap();
    let mut entry = [0; 8];
    let at = pages.pointer(n) as usize / PAGE * entry.len();
    file.read_exact_at(&mut entry, at as u64).unwrap();
    u64::from_ne_bytes(entry) & ((1 << 55) - 1)
}

#[test]
fn what_no_child_has_any_more_can_be_moved_after_populating() {
    let _begun = common::begin("populating_ends_sharing");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let pages = Pages::filled(3, 7);
    let staging = Pages::map(3);
    common::register(&uffd, pages);
    common::register(&uffd, staging);
    let busy = common::refused(Errno::BUSY);
    let try_page = |n| common::move_pages(&uffd, staging.page(n), pages.page(n));
    let populate = |n| pages.page(n).advise(libc::MADV_POPULATE_WRITE);
    let frames = [0, 1].map(|n| frame(pages, n));

    let child = Child::idle();
    assert_eq!(try_page(0), busy, "shared");
    populate(0).expect("writable");
    if frames[0] != 0 {
        assert_ne!(frame(pages, 0), frames[0], "the child has it: a copy");
    }
    assert!(pages.holds(0, 7));
    assert_eq!(try_page(0), common::all_moved(1), "a copy");

    child.kill();
    assert_eq!(try_page(1), busy, "no longer shared, but not written");
    populate(1).expect("writable");
    assert_eq!(frame(pages, 1), frames[1], "nobody else has it: no copy");
    assert!(pages.holds(1, 8));
    assert_eq!(try_page(1), common::all_moved(1), "its own");
    assert!(staging.holds(1, 8));

    pages.page(2).protect(libc::PROT_READ);
    populate(2).expect_err("it may not be written");
    assert!(pages.holds(2, 9));
}
