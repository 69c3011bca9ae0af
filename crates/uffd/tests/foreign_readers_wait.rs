//! Fact: `process_vm_readv` of a missing page waits for the userfaultfd's reader, as a touch does, and gets what that
//! installs. `/proc/PID/mem` does not wait: it answers EIO.
//!
//! So a tracer that has stopped the pager's threads and reads by `process_vm_readv`, as `strace -f` does, waits for
//! itself: a pager does not start where its threads are traced.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Features, Message};
use std::fs::File;
use std::os::unix::fs::FileExt;

#[test]
fn who_reads_from_outside_waits() {
    let _begun = common::begin("foreign_readers_wait");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(2);
    common::register(&uffd, memory);
    let at = memory.pointer(0) as usize;
    let reader = Task::start(move || {
        let mut word = 0u64;
        let part = |base, iov_len| libc::iovec {
            iov_base: base,
            iov_len,
        };
        let here = part((&raw mut word).cast(), 8);
        let there = part(at as *mut _, 8);
        // SAFETY: eight bytes of this process, into eight bytes of this thread's.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
        (read, word)
    });
    let fault = common::next(&uffd);
    assert!(matches!(fault, Message::Fault { address, .. } if address == at));
    assert!(!reader.is_done());
    assert_eq!(common::copy(&uffd, memory, 0, 9), Ok(common::PAGE));
    let (read, word) = reader.finish();
    assert_eq!((read, memory.holds(0, word)), (8, true));
    let mut word = [0u8; 8];
    let own = File::open("/proc/self/mem").expect("/proc/self/mem");
    let refused = own.read_at(&mut word, memory.pointer(1) as u64);
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EIO));
    assert!(common::is_silent(&uffd));
}
