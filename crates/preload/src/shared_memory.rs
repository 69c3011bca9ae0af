//! `shmat`, where it replaces memory.
//!
//! With `SHM_REMAP` a segment takes the place of what is mapped there. The kernel tells a userfaultfd of each
//! mapping that is unmapped or replaced, but not of this. What the pager remembered of the place would come back
//! in memory that is mapped there later, so the wrapper makes the call with the gate closed, and forgets it.

use crate::the_pager::pager;
use crate::wrappers::answer;
use coldpress_linux::sys;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::ffi::{c_int, c_void};
use linux_raw_sys::general as nr;

const SHM_REMAP: c_int = 0o40000;

/// `shmat`, of which the pager has to know where it replaces memory.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(segment: c_int, at: *const c_void, flags: c_int) -> *mut c_void {
    let args = [segment as usize, at as usize, flags as usize, 0, 0, 0];
    // SAFETY: the program's own call.
    let call = || unsafe { sys::syscall(nr::__NR_shmat, args) };
    let replaces = flags & SHM_REMAP != 0 && !at.is_null();
    // A segment that cannot be asked for its size cannot be attached either.
    let bytes = replaces.then(|| segment_bytes(segment)).flatten();
    let result = match bytes {
        Some(bytes) => pager().replace_unannounced(AddressRange::new(at as usize, bytes), call),
        None => call(),
    };
    answer(result) as *mut c_void
}

/// Size of a segment, in whole pages.
fn segment_bytes(segment: c_int) -> Option<usize> {
    /// `IPC_STAT`
    const STAT: usize = 2;
    /// `shm_segsz` stands behind the permissions.
    const SIZE: usize = 48 / size_of::<usize>();
    let mut told = [0usize; 16];
    let args = [segment as usize, STAT, (&raw mut told) as usize, 0, 0, 0];
    // SAFETY: the kernel writes 112 bytes.
    let result = unsafe { sys::syscall(nr::__NR_shmctl, args) };
    (result == 0).then(|| told[SIZE].next_multiple_of(PAGE_SIZE))
}
