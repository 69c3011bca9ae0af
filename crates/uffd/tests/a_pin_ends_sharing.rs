//! Fact: a page that a fork has shared, and that no other process has any more, is this process's own again when it has
//! been pinned for a read (`process_vm_readv` on itself): it keeps frame and content, and `UFFDIO_MOVE` takes it. One that
//! a child still has becomes a copy, and the child keeps the other; so may one that another processor still has in its
//! batch of pages that are new to the kernel's lists. A hole of a file that is mapped shared stays a hole, and the file
//! keeps its time.
//!
//! The pager may rely on it to evict what a program held when it forked, without writing to anything.

use crate::common::{self, Child, PAGE, Pages};
use coldpress_uffd::{Errno, Features, Pagemap};
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

/// The frame of a page; 0: only root is told.
fn frame(pages: Pages, n: usize) -> u64 {
    let file = std::fs::File::open("/proc/self/pagemap").unwrap();
    let mut entry = [0; 8];
    let at = pages.pointer(n) as usize / PAGE * entry.len();
    file.read_exact_at(&mut entry, at as u64).unwrap();
    u64::from_ne_bytes(entry) & ((1 << 55) - 1)
}

/// Reads a byte of this process by a pin.
fn pinned(at: *mut c_void) -> Result<(), Errno> {
    let mut byte = 0u8;
    let into = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let from = libc::iovec {
        iov_base: at,
        iov_len: 1,
    };
    // SAFETY: one byte is written, into `byte`.
    match unsafe { libc::process_vm_readv(libc::getpid(), &into, 1, &from, 1, 0) } {
        1 => Ok(()),
        _ => Err(Errno::from_raw_os_error(common::errno())),
    }
}

/// The processor this thread runs on, which it does not leave any more.
fn stay() -> usize {
    // SAFETY: a plain question.
    let processor = unsafe { libc::sched_getcpu() } as usize;
    go_to(processor);
    processor
}

/// Lets this thread run on one processor only.
fn go_to(processor: usize) {
    // SAFETY: a set of plain bits that is written here, and read by the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        let done = libc::sched_setaffinity(0, size_of_val(&set), &set);
        assert_eq!(done, 0, "processor {processor}: {}", common::errno());
    }
}

/// A processor that this thread may run on and does not run on now.
fn another_processor() -> Option<usize> {
    // SAFETY: a plain question, and a set of plain bits that the call fills.
    unsafe {
        let here = libc::sched_getcpu() as usize;
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (0..libc::CPU_SETSIZE as usize).find(|&n| n != here && libc::CPU_ISSET(n, &set))
    }
}

/// There a read of a hole takes memory.
fn is_tmpfs(file: &std::fs::File) -> bool {
    // SAFETY: plain numbers, which the call fills.
    unsafe {
        let mut told: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &mut told) == 0 && told.f_type == libc::TMPFS_MAGIC
    }
}

#[test]
fn what_no_child_has_any_more_can_be_moved_after_a_pin() {
    let _begun = common::begin("a_pin_ends_sharing");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    // Its own batch is what a processor empties before it looks who else has a page.
    stay();
    let pages = Pages::filled(2, 7);
    let staging = Pages::map(2);
    let page_map = Pagemap::open().unwrap();
    common::register(&uffd, pages);
    common::register(&uffd, staging);
    let busy = common::refused(Errno::BUSY);
    let try_page = |n| common::move_pages(&uffd, staging.page(n), pages.page(n));
    let pin = |n| pinned(pages.pointer(n)).expect("readable");
    let frames = [0, 1].map(|n| frame(pages, n));

    let child = Child::idle();
    assert_eq!(try_page(0), busy, "shared");
    pin(0);
    if frames[0] != 0 {
        assert_ne!(frame(pages, 0), frames[0], "the child has it: a copy");
    }
    assert!(pages.holds(0, 7));
    assert_eq!(try_page(0), common::all_moved(1), "a copy");

    child.kill();
    common::wait_until("nobody looks at the child's memory any more", || {
        page_map.is_mapped_once(pages.pointer(1) as usize).unwrap()
    });
    assert_eq!(try_page(1), busy, "no longer shared, but not written");
    pin(1);
    assert_eq!(frame(pages, 1), frames[1], "nobody else has it: no copy");
    assert!(pages.holds(1, 8));
    assert_eq!(try_page(1), common::all_moved(1), "its own");
    assert!(staging.holds(1, 8));
}

#[test]
fn what_another_processor_has_made_can_be_moved_after_a_pin() {
    let _begun = common::begin("a_pin_ends_sharing");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let Some(away) = another_processor() else {
        return common::skipped("one processor only");
    };
    let home = stay();
    go_to(away);
    let pages = Pages::filled(1, 7);
    go_to(home);
    let staging = Pages::map(1);
    common::register(&uffd, pages);
    common::register(&uffd, staging);
    Child::idle().kill();
    pinned(pages.pointer(0)).expect("readable");
    assert!(pages.holds(0, 7));
    let moved = common::move_pages(&uffd, staging.page(0), pages.page(0));
    assert_eq!(moved, common::all_moved(1), "in its frame, or as a copy");
    assert!(staging.holds(0, 7));
}

#[test]
fn a_pin_changes_no_file() {
    let _begun = common::begin("a_pin_ends_sharing");
    let path = std::env::temp_dir().join(format!("coldpress-pin-{}", std::process::id()));
    let file = std::fs::File::create_new(&path).unwrap();
    file.set_len(4 * PAGE as u64).unwrap();
    let times = |file: &std::fs::File| {
        (
            file.metadata().unwrap().modified().unwrap(),
            file.metadata().unwrap().blocks(),
        )
    };
    let before = times(&file);
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    // SAFETY: a new mapping of a file of our own.
    let at = unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(
            std::ptr::null_mut(),
            4 * PAGE,
            rights,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    pinned(at).expect("readable");
    file.sync_all().unwrap();
    let after = times(&file);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(after.0, before.0, "its time");
    if !is_tmpfs(&file) {
        assert_eq!(after.1, before.1, "its blocks");
    }
}
