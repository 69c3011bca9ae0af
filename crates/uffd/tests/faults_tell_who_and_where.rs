//! Fact: a fault message carries the number of the thread that sleeps, the page and whether the
//! touch was a write.
//!
//! The watchdog names the thread that waits too long; a page of zeros that is written to is
//! answered with a page of its own at once, not with the zero page.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Access, Features, Message};

#[test]
fn thread_page_and_kind() {
    let _begun = common::begin("faults_tell_who_and_where");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(3);
    common::register(&uffd, memory);
    for (n, access) in [(1, Access::Read), (2, Access::Write)] {
        let task = Task::start(move || {
            // SAFETY: a mapped page of the test; somewhere in the middle of it.
            let word = unsafe { memory.pointer(n).cast::<u64>().add(100) };
            match access {
                // SAFETY: as above.
                Access::Write => unsafe { word.write_volatile(1) },
                // SAFETY: as above.
                Access::Read => assert_eq!(unsafe { word.read_volatile() }, 7),
            }
        });
        let expected = Message::Fault {
            address: memory.page(n).start,
            access,
            thread: task.id,
        };
        assert_eq!(common::next(&uffd), expected);
        common::copy(&uffd, memory, n, 7).expect("restoring");
        task.finish();
    }
}
