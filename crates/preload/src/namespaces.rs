//! `unshare` and `setns`, where the kernel wants a process of one thread.
//!
//! It does for user namespaces (and for entering a time namespace). A program that has one thread natively has the
//! pager's beside it, so the pager leaves, and comes back afterwards
//! ([`Pager::absent`](coldpress_pager::Pager::absent)). The call is tried before, and the pager leaves only where it was
//! refused for that reason: a program that has other threads itself is refused as natively.

use crate::the_pager::pager;
use crate::wrappers::answer;
use coldpress_linux::sys;
use core::ffi::c_int;
use linux_raw_sys::general as nr;

const EINVAL: isize = -22;
const EUSERS: isize = -87;
/// `NS_GET_NSTYPE`.
const GET_TYPE: usize = 0xB703;
/// Namespaces that only a process of one thread enters.
const ALONE: u32 = nr::CLONE_NEWUSER | nr::CLONE_NEWTIME;
/// What only a process of one thread stops sharing.
const UNSHARED_ALONE: u32 = nr::CLONE_NEWUSER | nr::CLONE_THREAD | nr::CLONE_SIGHAND | nr::CLONE_VM;

/// `unshare`, for which the pager may have to leave.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    let wants_to_be_alone = flags as u32 & UNSHARED_ALONE != 0;
    let call = || {
        // SAFETY: the program's own call.
        unsafe { sys::syscall(nr::__NR_unshare, [flags as usize, 0, 0, 0, 0, 0]) }
    };
    answer(alone(wants_to_be_alone, call)) as c_int
}

/// `setns`, for which the pager may have to leave.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(fd: c_int, kind: c_int) -> c_int {
    // SAFETY: the kernel tells what sort of namespace it is, or refuses.
    let told = unsafe { sys::syscall(nr::__NR_ioctl, [fd as usize, GET_TYPE, 0, 0, 0, 0]) };
    let kind_of = if told > 0 { told as u32 } else { kind as u32 };
    let call = || {
        // SAFETY: the program's own call.
        unsafe { sys::syscall(nr::__NR_setns, [fd as usize, kind as usize, 0, 0, 0, 0]) }
    };
    answer(alone(kind_of & ALONE != 0, call)) as c_int
}

/// Calls, and where the pager's threads were in the way calls again without them.
fn alone(wants_to_be_alone: bool, call: impl Fn() -> isize) -> isize {
    let refused = |result| wants_to_be_alone && matches!(result, EINVAL | EUSERS);
    let result = call();
    if !refused(result) || !pager().is_expected() {
        return result;
    }
    pager().absent(call).unwrap_or(result)
}
