//! Fact: a thread made by `clone` without CLONE_FILES has a descriptor table of its own. Its
//! userfaultfd stays open, and answers faults, after the rest of the process has closed every
//! descriptor from 3 on; and what it closes itself stays open for the rest.
//!
//! Daemons and shells sweep descriptors they do not know. Closing the pager's userfaultfd would
//! turn every page that is away into zeros (see `the_last_close_gives_zeros`).

use crate::common::{self, PAGE, Pages, WELL, WORDS};
use coldpress_uffd::{Features, Tier, Userfaultfd};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

/// What the thread and the rest of its process share.
struct Shared {
    memory: Pages,
    /// 0: starting, 1: ready, 2: failed.
    state: AtomicU32,
}

/// Opens a userfaultfd, and answers the first fault. Uses no thread-local storage: it has none
/// (the crate's own calls use none either).
extern "C" fn pager(argument: *mut c_void) -> c_int {
    // SAFETY: the process ends before `shared` does.
    let shared = unsafe { &*argument.cast::<Shared>() };
    // SAFETY: closes descriptors of this thread's own table.
    unsafe { libc::close_range(3, u32::MAX, 0) };
    let answer = |uffd: &Userfaultfd| {
        uffd.wait(Some(20_000_000_000));
        let content = [7u64; WORDS];
        // SAFETY: the content lies on this thread's stack.
        unsafe { uffd.copy(shared.memory.start, content.as_ptr().cast(), PAGE) }
    };
    let opened = Userfaultfd::from_system_call(Tier::Full).and_then(|uffd| {
        uffd.handshake(Features::PAGER)?;
        // SAFETY: answered below.
        unsafe { uffd.register(shared.memory.range())? };
        Ok(uffd)
    });
    match opened {
        Ok(uffd) => {
            shared.state.store(1, Release);
            let _ = answer(&uffd);
            // It may have been closed behind our back, which is the point.
            std::mem::forget(uffd);
        }
        Err(_) => shared.state.store(2, Release),
    }
    loop {
        std::hint::spin_loop();
    }
}

/// In a forked child: lets a thread, made with `also` among its flags, open a userfaultfd, closes
/// everything, and gives what the memory then reads and whether an old descriptor was open before.
fn read_after_a_sweep(also: c_int) -> (u64, bool) {
    // A number that no new descriptor gets.
    // SAFETY: makes a copy of stderr's descriptor.
    let old = unsafe { libc::fcntl(2, libc::F_DUPFD, 500) };
    assert!(old >= 500, "F_DUPFD: {}", common::errno());
    let shared = Shared {
        memory: Pages::map(1),
        state: AtomicU32::new(0),
    };
    let stack = Pages::map(64);
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | also;
    let argument = (&raw const shared).cast_mut().cast();
    // SAFETY: the stack is the thread's alone, and `shared` lives until the process ends.
    let thread = unsafe { libc::clone(pager, stack.pointer(64), flags, argument) };
    assert!(thread > 0, "clone: {}", common::errno());
    while shared.state.load(Acquire) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(
        shared.state.load(Acquire),
        1,
        "the thread has no userfaultfd"
    );
    // SAFETY: asks about a descriptor, changes nothing.
    let still_open = unsafe { libc::fcntl(old, libc::F_GETFD) } >= 0;
    // SAFETY: this process uses no descriptor any more but those of stdio.
    let closed = unsafe { libc::close_range(3, u32::MAX, 0) };
    assert_eq!(closed, 0, "close_range: {}", common::errno());
    (shared.memory.read(0), still_open)
}

#[test]
fn a_sweep_does_not_reach_it() {
    let _begun = common::begin("a_descriptor_table_of_its_own");
    if common::open(Features::PAGER).is_none() {
        return;
    }
    let ended = common::in_child(|| {
        assert_eq!(read_after_a_sweep(0), (7, true));
    });
    assert_eq!(ended, WELL);
}

/// Else the test above proves nothing.
#[test]
fn a_sweep_reaches_a_shared_table() {
    let _begun = common::begin("a_shared_descriptor_table");
    if common::open(Features::PAGER).is_none() {
        return;
    }
    let ended = common::in_child(|| {
        assert_eq!(read_after_a_sweep(libc::CLONE_FILES), (0, false));
    });
    assert_eq!(ended, WELL);
}
