//! Fact: `UFFDIO_MOVE` answers EINVAL for pages of a read-only, an inaccessible and an mlocked
//! mapping, and moves them again once they are writable and unlocked.
//!
//! The pager looks at mappings from time to time only; between two looks it relies on the kernel
//! to refuse what must stay.

use crate::common::{self, Pages};
use coldpress_uffd::{Errno, Features, Userfaultfd};

fn assert_refused_until(
    uffd: &Userfaultfd,
    what: &str,
    forbid: impl Fn(Pages),
    allow: impl Fn(Pages),
) {
    let pages = Pages::filled(2, 7);
    let staging = Pages::map(2);
    common::register(uffd, pages);
    common::register(uffd, staging);
    forbid(pages);
    let moved = common::move_pages(uffd, staging, pages);
    assert_eq!(moved, common::refused(Errno::INVAL), "{what}");
    allow(pages);
    assert_eq!(
        common::move_pages(uffd, staging, pages),
        common::all_moved(2)
    );
    assert!(staging.holds(0, 7) && staging.holds(1, 8));
}

const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

#[test]
fn read_only_pages_stay() {
    let _begun = common::begin("read_only_is_invalid");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let protect = |rights| move |pages: Pages| pages.protect(rights);
    assert_refused_until(
        &uffd,
        "read-only",
        protect(libc::PROT_READ),
        protect(WRITABLE),
    );
    assert_refused_until(
        &uffd,
        "inaccessible",
        protect(libc::PROT_NONE),
        protect(WRITABLE),
    );
}

#[test]
fn locked_pages_stay() {
    let _begun = common::begin("locked_is_invalid");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let lock = |pages: Pages| {
        // SAFETY: mapped memory of the test.
        let result = unsafe { libc::mlock(pages.pointer(0), pages.len()) };
        assert_eq!(result, 0, "mlock: {}", common::errno());
    };
    let unlock = |pages: Pages| {
        // SAFETY: mapped memory of the test.
        let result = unsafe { libc::munlock(pages.pointer(0), pages.len()) };
        assert_eq!(result, 0, "munlock: {}", common::errno());
    };
    assert_refused_until(&uffd, "mlocked", lock, unlock);
}
