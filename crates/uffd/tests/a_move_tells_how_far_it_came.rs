//! Fact: a move that meets a page it cannot take says EAGAIN and how many bytes were done before
//! it; the next one, which begins with that page, says why.
//!
//! The pager counts the pages before as taken, notes the reason, and goes on behind the page.

use crate::common::{self, Child, PAGE, Pages};
use coldpress_uffd::{Errno, Features, Moved};

#[test]
fn a_page_that_stays_divides_the_run() {
    let _begun = common::begin("a_move_tells_how_far_it_came");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(8, 70);
    let staging = Pages::map(8);
    common::register(&uffd, memory);
    common::register(&uffd, staging);
    Child::idle().kill();
    for n in (0..8).filter(|&n| n != 3) {
        memory.fill(n, 80 + n as u64);
    }

    let first = common::move_pages(&uffd, staging, memory);
    let three = Moved {
        bytes: 3 * PAGE,
        stopped: Some(Errno::AGAIN),
    };
    assert_eq!(first, three);
    let second = common::move_pages(&uffd, staging.part(3, 5), memory.part(3, 5));
    assert_eq!(second, common::refused(Errno::BUSY));
    let third = common::move_pages(&uffd, staging.part(4, 4), memory.part(4, 4));
    assert_eq!(third, common::all_moved(4));
    assert_eq!(staging.populated(), [0, 1, 2, 4, 5, 6, 7]);
    assert!(
        [0, 1, 2, 4, 5, 6, 7]
            .iter()
            .all(|&n| staging.holds(n, 80 + n as u64))
    );
    assert!(memory.holds(3, 73), "what stays is whole");
}
