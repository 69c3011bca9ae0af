//! Fact: `UFFDIO_MOVE` answers EBUSY for a page that a fork has shared, as long as it is not
//! written to: reading does not help, nor does the end of the child.
//!
//! The pager must take EBUSY for an ordinary outcome after a fork and try again later, and may
//! rely on never taking a frame that another process still reads.

use crate::common::{self, Child, Pages};
use coldpress_uffd::{Errno, Features};

#[test]
fn pages_shared_by_fork_stay_until_they_are_written() {
    let _begun = common::begin("shared_with_a_child_is_busy");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let pages = Pages::filled(2, 7);
    let staging = Pages::map(2);
    common::register(&uffd, pages);
    common::register(&uffd, staging);
    let busy = common::refused(Errno::BUSY);
    let try_page = |n| common::move_pages(&uffd, staging.page(n), pages.page(n));

    let child = Child::idle();
    assert_eq!(try_page(0), busy, "shared");
    assert!(pages.holds(0, 7));
    assert_eq!(try_page(0), busy, "shared and read");
    pages.fill(0, 9);
    assert_eq!(try_page(0), common::all_moved(1), "written");
    assert!(staging.holds(0, 9));

    child.kill();
    assert_eq!(try_page(1), busy, "no longer shared, but not written");
    pages.fill(1, 9);
    assert_eq!(try_page(1), common::all_moved(1), "written");
    assert!(staging.holds(1, 9));
}
