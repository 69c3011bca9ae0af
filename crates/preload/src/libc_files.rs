//! libc's list of open files: in the child of a multi-threaded fork libc resets the lock of each
//! before any hook runs, so all of them must be in place when the kernel copies the process.
//!
//! libc's `fork` takes the lock of the list behind the hooks. It is taken before the pager's own locks are, and held until
//! the hook behind the fork: another thread may have it and wait for one of those (a file's own `write`, made by
//! `fopencookie`, that moves memory; any thread that forks while `fflush` of all files writes into a full pipe).
//!
//! The list and the offsets are part of glibc's ABI (`_IO_list_all`, `struct _IO_FILE`); the
//! promise `fork_preserves_content` has a test with many open files that fails without this.

use crate::libc_symbols;
use core::ptr::read_volatile;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const CHAIN: usize = 0x68;
const LOCK: usize = 0x88;
const LAST_WORD: usize = 0xD8;

/// How often the lock of the list is held for a fork: a signal handler that forks may have interrupted a fork that had just
/// begun. Written under that lock. In such a handler's child the fork that was interrupted goes on, and holds nothing any
/// more.
static HOLDS: AtomicUsize = AtomicUsize::new(0);

/// Takes the lock of the list, before anything of the pager's is locked, and signals are blocked.
pub(crate) fn hold() {
    if let Some(list) = libc_symbols::list_of_files() {
        // SAFETY: libc's own `fork` takes the lock next, in the same thread (it is recursive).
        unsafe { (list.lock)() };
        HOLDS.fetch_add(1, Relaxed);
    }
}

/// Frees it, in the parent.
pub(crate) fn let_go() {
    if let Some(list) = libc_symbols::list_of_files()
        && HOLDS.load(Relaxed) > 0
    {
        HOLDS.fetch_sub(1, Relaxed);
        // SAFETY: taken in `hold` by this thread.
        unsafe { (list.unlock)() };
    }
}

/// In the child, whose only thread holds it or has a copy of libc's that is free: libc resets it only where it knows of several
/// threads.
pub(crate) fn let_go_in_child() {
    if let Some(list) = libc_symbols::list_of_files() {
        HOLDS.store(0, Relaxed);
        // SAFETY: no other thread is here.
        unsafe { (list.reset)() };
    }
}

/// Touches every file and its lock. The lock of the list is held.
pub(crate) fn touch() {
    let Some(list) = libc_symbols::list_of_files() else {
        return;
    };
    // SAFETY: under the lock of the list no file of it comes or goes, and its words are libc's.
    unsafe {
        let mut file = read_volatile(list.first);
        while !file.is_null() {
            read_volatile(file);
            read_volatile(file.add(LAST_WORD));
            let lock = read_volatile(file.add(LOCK).cast::<*const u8>());
            if !lock.is_null() {
                read_volatile(lock);
            }
            file = read_volatile(file.add(CHAIN).cast::<*const u8>());
        }
    }
}
