//! Fact: `UFFDIO_COPY` fills missing pages of registered memory that `mprotect` has since made
//! read-only or inaccessible, and a fault on read-only memory is announced like any other. Memory
//! that is not writable at all can be written through `/proc/self/mem`.
//!
//! Programs close memory whose pages are away; the content has to come back to it nevertheless,
//! in a child without userfaultfd by the second way.

use crate::common::{self, PAGE, Pages, Task, WORDS};
use coldpress_uffd::{Access, Features, Message};
use std::os::unix::fs::FileExt;

#[test]
fn content_comes_back_to_closed_memory() {
    let _begun = common::begin("copying_into_closed_memory");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(2);
    common::register(&uffd, memory);
    memory.protect(libc::PROT_READ);
    let reader = Task::start(move || memory.read(0));
    let fault = common::next(&uffd);
    assert!(
        matches!(
            fault,
            Message::Fault {
                access: Access::Read,
                ..
            }
        ),
        "{fault:?}"
    );
    assert_eq!(common::copy(&uffd, memory, 0, 7), Ok(PAGE));
    assert_eq!(reader.finish(), 7);

    memory.protect(libc::PROT_NONE);
    assert_eq!(common::copy(&uffd, memory, 1, 8), Ok(PAGE));
    memory.protect(libc::PROT_READ);
    assert!(memory.holds(0, 7) && memory.holds(1, 8));
    assert!(common::is_silent(&uffd));
}

#[test]
fn the_memory_file_writes_whatever_the_protection() {
    let _begun = common::begin("the_memory_file");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    let file = file.expect("/proc/self/mem");
    let content = [7u64; WORDS].map(u64::to_ne_bytes).concat();
    for rights in [libc::PROT_READ, libc::PROT_NONE] {
        let memory = Pages::map(1);
        memory.protect(rights);
        let written = file.write_at(&content, memory.start as u64);
        assert_eq!(written.ok(), Some(PAGE), "rights {rights}");
        memory.protect(libc::PROT_READ);
        assert!(memory.holds(0, 7));
    }
}
