//! Fact: `shmat` with `SHM_REMAP` takes registered memory away without an event, unlike `munmap` and `mmap`.
//!
//! The pager has to learn of it from a wrapper of `shmat`: what it remembers of the place is gone, and what is mapped
//! there later is not registered.

use crate::common::{self, Pages};
use coldpress_uffd::{Errno, Features};

#[test]
fn a_segment_replaces_memory_in_silence() {
    let _begun = common::begin("segments_come_without_an_event");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(2, 7);
    common::register(&uffd, memory);
    // SAFETY: a segment of this test, of two pages, at the place of memory that nothing else uses.
    unsafe {
        let segment = libc::shmget(libc::IPC_PRIVATE, memory.len(), libc::IPC_CREAT | 0o600);
        assert!(segment >= 0, "shmget: {}", common::errno());
        let at = libc::shmat(segment, memory.pointer(0), libc::SHM_REMAP);
        libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut());
        assert_eq!(at, memory.pointer(0));
    }
    assert!(common::is_silent(&uffd));
    assert!(memory.holds(0, 0) && memory.holds(1, 0));
    // SAFETY: the segment that was attached above.
    assert_eq!(unsafe { libc::shmdt(memory.pointer(0)) }, 0);
    memory.map_again();
    assert!(common::is_silent(&uffd));
    assert_eq!(common::copy(&uffd, memory, 0, 9), Err(Errno::NOENT));
}
