//! Fact: a child that shares its parent's memory (`vfork`, `posix_spawn`, `clone(CLONE_VM)`)
//! faults on the parent's userfaultfd, and is answered like a thread.
//!
//! Until it calls `exec`, such a child is served by the pager of its parent; nothing has to be
//! done for it.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Features, Message};
use std::ffi::{c_int, c_void};

extern "C" fn child(argument: *mut c_void) -> c_int {
    // SAFETY: a mapped page of the test.
    unsafe { argument.cast::<u64>().read_volatile() as c_int }
}

#[test]
fn the_childs_faults_are_answered() {
    let _begun = common::begin("vfork_shares_the_pager");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(1);
    common::register(&uffd, memory);
    let parent = Task::start(move || {
        let stack = Pages::map(16);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack is the child's alone; it only reads a word.
        let process = unsafe { libc::clone(child, stack.pointer(16), flags, memory.pointer(0)) };
        assert!(process > 0, "clone: {}", common::errno());
        let mut status = 0;
        // SAFETY: a child of ours; the kernel writes the status.
        let ended = unsafe { libc::waitpid(process, &mut status, 0) };
        assert_eq!(ended, process, "waitpid: {}", common::errno());
        (
            process as u32,
            libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        )
    });
    let Message::Fault {
        address, thread, ..
    } = common::next(&uffd)
    else {
        panic!("no fault");
    };
    assert_eq!(address, memory.start);
    common::copy(&uffd, memory, 0, 7).expect("restoring");
    assert_eq!(parent.finish(), (thread, Some(7)));
}
