//! Fact: a part of a huge page to which something refers, by a pipe or otherwise, is not moved: `EBUSY`, at once. The kernel
//! would have to split it first, and cannot. Once the reference is gone the part is moved.
//!
//! Any other answer, or a call that tries again for ever, would stop the pager within the gate.

use crate::common::{self, Pages};
use coldpress_uffd::{Errno, Features};

const HUGE_PAGES: usize = (2 << 20) / common::PAGE;

/// The pages of a huge page, or loudly nothing.
fn huge_page() -> Option<Pages> {
    let pages = Pages::map(2 * HUGE_PAGES);
    let first = (pages.start.next_multiple_of(2 << 20) - pages.start) / common::PAGE;
    let huge = pages.part(first, HUGE_PAGES);
    let is_asked_for = huge.advise(libc::MADV_HUGEPAGE).is_ok();
    (0..HUGE_PAGES).for_each(|n| huge.fill(n, 70 + n as u64));
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let of_huge = rollup
        .lines()
        .find_map(|line| line.strip_prefix("AnonHugePages:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    if !is_asked_for || of_huge.unwrap_or(0) == 0 {
        common::skipped("no huge pages");
        return None;
    }
    Some(huge)
}

fn refused_while_a_pipe_refers_to_it(name: &'static str, prepare: impl Fn(Pages)) {
    let _begun = common::begin(name);
    let (Some(uffd), Some(huge)) = (common::open(Features::PAGER), huge_page()) else {
        return;
    };
    let staging = Pages::map(64);
    common::register(&uffd, staging);
    prepare(huge);
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, and a page that stays mapped; the pipe holds the page.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let page = libc::iovec {
            iov_base: huge.pointer(7),
            iov_len: common::PAGE,
        };
        assert_eq!(libc::vmsplice(ends[1], &page, 1, 0), common::PAGE as isize);
    }
    let moved = common::move_pages(&uffd, staging, huge.part(100, 64));
    assert_eq!((moved.bytes, moved.stopped), (0, Some(Errno::BUSY)));
    assert!((0..HUGE_PAGES).all(|n| huge.holds(n, 70 + n as u64)));
    // SAFETY: descriptors of the test's own.
    unsafe {
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
    let moved = common::move_pages(&uffd, staging, huge.part(100, 64));
    assert_eq!(moved, common::all_moved(64));
    assert!((0..64).all(|n| staging.holds(n, 170 + n as u64)));
}

#[test]
fn one_that_is_mapped_whole() {
    refused_while_a_pipe_refers_to_it("a_referenced_huge_page", |_| ());
}

#[test]
fn one_that_is_mapped_page_by_page() {
    refused_while_a_pipe_refers_to_it("a_referenced_split_huge_page", |huge| {
        let middle = huge.page(HUGE_PAGES / 2);
        middle.protect(libc::PROT_READ);
        middle.protect(libc::PROT_READ | libc::PROT_WRITE);
    });
}
