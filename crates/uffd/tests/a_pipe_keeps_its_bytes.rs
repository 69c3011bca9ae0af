//! Fact: `UFFDIO_MOVE` takes a frame that a pipe refers to (`vmsplice`), and the pipe goes on
//! referring to that frame: bytes that are later put at its staging address by dropping and
//! refilling it are not seen by the pipe, bytes written into the frame itself are.
//!
//! Therefore the pager drops a staging frame before its address is used again, and never writes
//! into a frame that was moved in.

use crate::common::{self, Pages};
use coldpress_uffd::{Features, Userfaultfd};
use std::ffi::c_int;

const OLD: u64 = 0x0101_0101_0101_0101;
const NEW: u64 = 0x0202_0202_0202_0202;

/// A page of OLD spliced into a pipe, then moved to staging. Returns pipe, page, staging.
fn spliced_and_moved(uffd: &Userfaultfd) -> (c_int, Pages, Pages) {
    let page = Pages::filled(1, OLD);
    let staging = Pages::map(1);
    common::register(uffd, page);
    common::register(uffd, staging);
    let (out, into) = common::pipe();
    let part = libc::iovec {
        iov_base: page.pointer(0),
        iov_len: page.len(),
    };
    // SAFETY: the part is a mapped page.
    let spliced = unsafe { libc::vmsplice(into, &part, 1, 0) };
    assert_eq!(
        spliced,
        page.len() as isize,
        "vmsplice: {}",
        common::errno()
    );
    assert_eq!(
        common::move_pages(uffd, staging, page),
        common::all_moved(1)
    );
    assert!(staging.holds(0, OLD));
    (out, page, staging)
}

fn in_the_pipe(out: c_int) -> Pages {
    let seen = Pages::filled(1, 0);
    assert_eq!(common::read_into(out, seen, seen.len()), Ok(seen.len()));
    seen
}

#[test]
fn dropped_and_refilled_staging_does_not_show_in_the_pipe() {
    let _begun = common::begin("a_pipe_keeps_its_bytes");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let (out, page, staging) = spliced_and_moved(&uffd);
    common::copy(&uffd, page, 0, OLD).expect("restoring");
    common::unregister(&uffd, staging);
    staging.advise(libc::MADV_DONTNEED).expect("dropping");
    common::register(&uffd, staging);
    // New frames everywhere the old one was, and in a good many places besides.
    page.fill(0, NEW);
    let next = Pages::filled(1, NEW);
    assert_eq!(
        common::move_pages(&uffd, staging, next),
        common::all_moved(1)
    );
    let _others = Pages::filled(4096, NEW);
    assert!(staging.holds(0, NEW));
    assert!(in_the_pipe(out).holds(0, OLD), "the pipe's bytes changed");
}

/// The reason for dropping: should the kernel one day part the frame from the pipe (or refuse
/// the move), dropping is no longer needed.
#[test]
fn writing_into_the_moved_frame_shows_in_the_pipe() {
    let _begun = common::begin("a_pipe_sees_writes_to_staging");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let (out, _, staging) = spliced_and_moved(&uffd);
    staging.fill(0, NEW);
    assert!(in_the_pipe(out).holds(0, NEW), "the frame was parted");
}
