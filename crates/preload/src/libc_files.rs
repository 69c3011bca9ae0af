//! libc's list of open files: in the child of a multi-threaded fork libc resets the lock of each
//! before any hook runs, so all of them must be in place when the kernel copies the process.
//!
//! The list and the offsets are part of glibc's ABI (`_IO_list_all`, `struct _IO_FILE`); the
//! promise `fork_preserves_content` has a test with many open files that fails without this.

use crate::libc_symbols;
use core::ptr::read_volatile;

const CHAIN: usize = 0x68;
const LOCK: usize = 0x88;
const LAST_WORD: usize = 0xD8;

/// Touches every file and its lock.
pub(crate) fn touch() {
    let Some((list, [lock_list, unlock_list])) = libc_symbols::list_of_files() else {
        return;
    };
    // SAFETY: under the lock of the list no file of it comes or goes, and its words are libc's. libc's own `fork` takes
    // the lock next, in the same thread (it is recursive).
    unsafe {
        lock_list();
        let mut file = read_volatile(list);
        while !file.is_null() {
            read_volatile(file);
            read_volatile(file.add(LAST_WORD));
            let lock = read_volatile(file.add(LOCK).cast::<*const u8>());
            if !lock.is_null() {
                read_volatile(lock);
            }
            file = read_volatile(file.add(CHAIN).cast::<*const u8>());
        }
        unlock_list();
    }
}
