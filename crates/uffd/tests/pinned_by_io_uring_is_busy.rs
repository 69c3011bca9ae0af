//! Fact: `UFFDIO_MOVE` answers EBUSY for a page that is pinned for direct transfer (here: a fixed
//! buffer of io_uring) until it is unpinned.
//!
//! The device goes on reading and writing the frame it was given: a page that was taken away
//! would miss what arrives there. The pager relies on the kernel to refuse, and skips the page.

use crate::common::{self, Pages};
use coldpress_uffd::{Errno, Features};
use std::ffi::{c_int, c_long};
use std::time::Duration;

const REGISTER_BUFFERS: c_int = 0;
const UNREGISTER_BUFFERS: c_int = 1;

#[test]
fn fixed_buffers_are_not_moved() {
    let _begun = common::begin("pinned_by_io_uring_is_busy");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let buffer = Pages::filled(1, 7);
    let staging = Pages::map(1);
    common::register(&uffd, buffer);
    common::register(&uffd, staging);

    let mut parameters = [0u32; 30];
    // SAFETY: the kernel reads and writes the 120 bytes of its parameters.
    let ring: c_long = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, &mut parameters) };
    if ring < 0 {
        common::skipped(&format!("io_uring is refused (errno {})", common::errno()));
        return;
    }
    let part = libc::iovec {
        iov_base: buffer.pointer(0),
        iov_len: buffer.len(),
    };
    let register = |operation: c_int, parts: *const libc::iovec, count: c_int| {
        // SAFETY: `parts` names `count` mapped pages.
        unsafe { libc::syscall(libc::SYS_io_uring_register, ring, operation, parts, count) }
    };
    if register(REGISTER_BUFFERS, &part, 1) != 0 {
        common::skipped(&format!("no fixed buffers (errno {})", common::errno()));
        return;
    }
    let try_it = || common::move_pages(&uffd, staging, buffer);
    assert_eq!(try_it(), common::refused(Errno::BUSY));
    buffer.fill(0, 9);
    assert_eq!(try_it(), common::refused(Errno::BUSY), "pinned and written");

    assert_eq!(register(UNREGISTER_BUFFERS, std::ptr::null(), 0), 0);
    // The kernel unpins when it comes to it.
    let mut tries = 0;
    while try_it() != common::all_moved(1) {
        tries += 1;
        assert!(tries < 500, "unpinned, and still {:?}", try_it());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(staging.holds(0, 9));
}
