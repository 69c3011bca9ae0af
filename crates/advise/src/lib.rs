//! What a program under `coldpress run` can say of its own memory: that it cannot wait for it.
//!
//! ```
//! use coldpress_advise::{Advice, advise_slice};
//!
//! # fn main() -> std::io::Result<()> {
//! let samples = vec![0f32; 48_000];
//! let managed = advise_slice(&samples, Advice::LatencySensitive)?; // false: there is no pager, and no need
//! # assert!(!managed);
//! # Ok(())
//! # }
//! ```
//!
//! Nothing has to be linked or configured: the call is looked for in the running process, once. For C the same
//! stands in `crates/preload/include/coldpress.h`.

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;

/// What is said of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It is like any other.
    Normal,
    /// The program cannot wait for it: it is never taken. What was taken of it is back when the call returns.
    LatencySensitive,
}

type Call = unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;

/// The pager's function, if a pager is in this process.
fn call() -> Option<Call> {
    static CALL: OnceLock<Option<Call>> = OnceLock::new();
    *CALL.get_or_init(|| {
        // SAFETY: the name ends in a zero; looking a symbol up has no other condition.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"coldpress_advise".as_ptr()) };
        // SAFETY: the preload library exports the name with this type; null is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<Call>>(symbol) }
    })
}

/// Whether a pager is in this process.
pub fn is_managed() -> bool {
    call().is_some()
}

/// Gives advice for the pages of `length` bytes from `address` on, as `madvise` does: `address` is that of a
/// page, and the last page counts whole. It lasts until other advice is given for these addresses, or until they
/// are unmapped or moved; forked children have it, too.
///
/// `Ok(false)`: there is no pager, nothing to do. No content is touched, whatever lies there.
///
/// # Errors
/// `InvalidInput` (EINVAL): `address` is not that of a page, or the range wraps around.
/// `OutOfMemory` (ENOMEM): more ranges than the pager can remember; nothing was changed.
pub fn advise(address: *const u8, length: usize, advice: Advice) -> io::Result<bool> {
    let Some(call) = call() else {
        return Ok(false);
    };
    let advice = match advice {
        Advice::Normal => 0,
        Advice::LatencySensitive => 1,
    };
    // SAFETY: the pager reads and writes nothing through the address, and checks the rest.
    match unsafe { call(address.cast_mut().cast(), length, advice) } {
        0 => Ok(true),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The same for all pages in which `memory` lies; what else lies in the first and the last has the advice, too.
///
/// # Errors
/// Those of [`advise`].
pub fn advise_slice<T>(memory: &[T], advice: Advice) -> io::Result<bool> {
    if size_of_val(memory) == 0 {
        return Ok(is_managed());
    }
    // SAFETY: it has no condition.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = memory.as_ptr().cast::<u8>();
    let before = start as usize % page;
    advise(
        start.wrapping_sub(before),
        before + size_of_val(memory),
        advice,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_pager_nothing_is_refused() {
        assert!(!is_managed());
        let memory = [0u64; 1000];
        for advice in [Advice::LatencySensitive, Advice::Normal] {
            assert!(!advise(std::ptr::null(), usize::MAX, advice).unwrap());
            assert!(!advise_slice(&memory, advice).unwrap());
        }
    }
}
