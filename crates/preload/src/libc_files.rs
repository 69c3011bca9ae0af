//! libc's list of open files: in the child of a multi-threaded fork libc resets the lock of each
//! before any hook runs, so all of them must be in place when the kernel copies the process.
//!
//! The list and the offsets are part of glibc's ABI (`_IO_list_all`, `struct _IO_FILE`); the
//! promise `fork_preserves_content` has a test with many open files that fails without this.

use core::ptr::read_volatile;

const CHAIN: usize = 0x68;
const LOCK: usize = 0x88;
const LAST_WORD: usize = 0xD8;

unsafe extern "C" {
    static _IO_list_all: *const u8;
    /// libc's lock of the list; its own `fork` takes it next, in the same thread (it is recursive).
    fn _IO_list_lock();
    fn _IO_list_unlock();
}

/// Touches every file and its lock.
pub(crate) fn touch() {
    // SAFETY: under the lock of the list no file of it comes or goes, and its words are libc's.
    unsafe {
        _IO_list_lock();
        let mut file = read_volatile(&raw const _IO_list_all);
        while !file.is_null() {
            read_volatile(file);
            read_volatile(file.add(LAST_WORD));
            let lock = read_volatile(file.add(LOCK).cast::<*const u8>());
            if !lock.is_null() {
                read_volatile(lock);
            }
            file = read_volatile(file.add(CHAIN).cast::<*const u8>());
        }
        _IO_list_unlock();
    }
}
