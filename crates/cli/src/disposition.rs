//! What a signal does to this process, read and set.

use std::mem;
use std::ptr;

/// What the signal does.
pub fn disposition(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: zeros are a valid `sigaction`; without a new action the call only reads.
    unsafe {
        let mut old: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut old);
        old.sa_sigaction
    }
}

/// Sets "default" or "ignore", or what was there before. Async-signal-safe.
pub fn set_disposition(signal: libc::c_int, disposition: libc::sighandler_t) {
    // SAFETY: zeros are a valid `sigaction` with an empty mask; the dispositions used are
    // SIG_DFL and SIG_IGN, as no handler survives `execve` and we install none.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = disposition;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}
