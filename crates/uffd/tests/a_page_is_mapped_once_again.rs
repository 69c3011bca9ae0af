//! Fact: the page map says of an anonymous page whether another process maps it: a forked child does, and a child of
//! that, until they have ended or executed another program; a fork that failed leaves nobody.
//!
//! The pager may rely on it to know that no copy of its process is left, however they ended.

use crate::common::{self, Child, Pages, assert_well, wait_until};
use coldpress_uffd::Pagemap;

#[test]
fn a_page_is_mapped_once_when_no_copy_is_left() {
    let _begun = common::begin("a_page_is_mapped_once_again");
    let pages = Pages::filled(1, 7);
    let page_map = Pagemap::open().unwrap();
    let is_once = || page_map.is_mapped_once(pages.pointer(0) as usize).unwrap();
    let there = pages.pointer(0) as usize;
    assert!(is_once());
    assert!(!page_map.is_mapped_once(0x1000).unwrap(), "nothing there");

    let child = Child::idle();
    assert!(!is_once(), "shared with a child");
    assert!(pages.holds(0, 7));
    assert!(!is_once(), "shared and read");
    child.kill();
    // Usually at once; a reader of the child's files in /proc keeps its memory for as long as it reads.
    wait_until("the child was waited for", is_once);

    // A child of a child has it, after its parent has ended.
    let child = Child::start(|| {
        // SAFETY: the copy only sleeps, and ends.
        if unsafe { libc::fork() } == 0 {
            std::thread::sleep(std::time::Duration::from_millis(500));
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
    });
    assert_well(child.end());
    assert!(!is_once(), "shared with a child's child");
    wait_until("the child's child has ended", is_once);

    // One that executes another program has it no more.
    let child = Child::start(|| {
        let program = c"/bin/sleep";
        let arguments = [program.as_ptr(), c"30".as_ptr(), std::ptr::null()];
        // SAFETY: terminated strings, and a terminated list.
        unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
    });
    wait_until("the child has executed another program", is_once);
    child.kill();
    assert_eq!(there, pages.pointer(0) as usize);
}
