//! Leaving the environment: a process that is not managed shall not hand the library on.

use coldpress_interface::config::handed as names;
use core::ffi::{CStr, c_char};

/// Removes this library from `LD_PRELOAD`, and all that was handed to it.
///
/// # Safety
/// `environment` is the process's environment block, and nothing else uses it now.
pub(crate) unsafe fn leave(environment: *mut *mut c_char) {
    // SAFETY: as the caller promises; entries are C strings in writable memory.
    unsafe {
        let own = find(environment, names::PRELOAD_PATH);
        let mut at = environment;
        while !(*at).is_null() {
            let entry = *at;
            let text = CStr::from_ptr(entry).to_bytes();
            let keep = match value_of(text, "LD_PRELOAD") {
                Some(list) => without(entry, text.len() - list.len(), own),
                None => !text.starts_with(names::PREFIX.as_bytes()),
            };
            if keep {
                at = at.add(1);
            } else {
                close_gap(at);
            }
        }
    }
}

/// Removes variable `name`.
///
/// # Safety
/// As for [`leave`].
pub(crate) unsafe fn remove(environment: *mut *mut c_char, name: &str) {
    let mut at = environment;
    // SAFETY: as the caller promises.
    unsafe {
        while !(*at).is_null() {
            match value_of(CStr::from_ptr(*at).to_bytes(), name) {
                None => at = at.add(1),
                Some(_) => close_gap(at),
            }
        }
    }
}

/// Takes one entry out of the list.
unsafe fn close_gap(mut gap: *mut *mut c_char) {
    // SAFETY: as for `leave`; the list ends with a null pointer.
    unsafe {
        while !(*gap).is_null() {
            *gap = *gap.add(1);
            gap = gap.add(1);
        }
    }
}

fn value_of<'a>(entry: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

unsafe fn find<'a>(environment: *mut *mut c_char, name: &str) -> &'a [u8] {
    let mut at = environment;
    // SAFETY: as for `leave`.
    unsafe {
        while !(*at).is_null() {
            if let Some(value) = value_of(CStr::from_ptr(*at).to_bytes(), name) {
                return value;
            }
            at = at.add(1);
        }
    }
    b""
}

/// Removes `own` from the list that begins at `start` of `entry`, in place. `false`: nothing
/// is left of the list.
unsafe fn without(entry: *mut c_char, start: usize, own: &[u8]) -> bool {
    // SAFETY: what is written is never longer than what was read, and it is read before.
    unsafe {
        let list = CStr::from_ptr(entry.add(start)).to_bytes();
        let (mut written, len) = (0, list.len());
        let mut at = 0;
        while at < len {
            let rest = core::slice::from_raw_parts(entry.add(start + at).cast::<u8>(), len - at);
            let end = rest
                .iter()
                .position(|&c| c == b':' || c == b' ')
                .unwrap_or(rest.len());
            if &rest[..end] != own && end > 0 {
                if written > 0 {
                    entry.add(start + written).write(b':' as c_char);
                    written += 1;
                }
                core::ptr::copy(entry.add(start + at), entry.add(start + written), end);
                written += end;
            }
            at += end + 1;
        }
        entry.add(start + written).write(0);
        written > 0
    }
}
