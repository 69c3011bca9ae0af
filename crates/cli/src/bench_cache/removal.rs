//! The memory group is emptied and removed, at the end and when a signal ends the command (B3).
//!
//! [`remove_group`] uses nothing but async-signal-safe calls and an atomic: the handler of `on_signal.rs`
//! calls it, in any thread.

use crate::on_signal;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

/// The memory group to remove: never freed, or null.
static GROUP: AtomicPtr<GroupPaths> = AtomicPtr::new(ptr::null_mut());

struct GroupPaths {
    directory: CString,
    processes: CString,
}

/// From now on the memory group `directory` is removed, its processes killed. Leaks a few bytes each time,
/// since a handler may be reading them.
pub fn group_is_ours(directory: &Path) {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    let paths = Box::new(GroupPaths {
        directory: text(directory),
        processes: text(&directory.join("cgroup.procs")),
    });
    GROUP.store(Box::into_raw(paths), SeqCst);
    on_signal::call(remove_group);
}

/// It is not ours, after all.
pub fn forget_group() {
    GROUP.store(ptr::null_mut(), SeqCst);
}

/// Kills what is in our memory group, if there is one, and removes it, trying for ten seconds at most.
/// Async-signal-safe.
pub fn remove_group() {
    let group = GROUP.swap(ptr::null_mut(), SeqCst);
    // SAFETY: null or a box that is never freed.
    let Some(group) = (unsafe { group.as_ref() }) else {
        return;
    };
    for _ in 0..1000 {
        // SAFETY: a C string; the calling thread's own error number.
        let gone = unsafe {
            libc::rmdir(group.directory.as_ptr()) == 0 || *libc::__errno_location() == libc::ENOENT
        };
        if gone {
            return;
        }
        kill_all(&group.processes);
        on_signal::pause();
    }
}

/// Kills the processes listed in a file of the kernel's. Async-signal-safe.
fn kill_all(processes: &CStr) {
    let mut text = [0u8; 4096];
    // SAFETY: the path is a C string, the buffer is as long as told, and the descriptor is the one
    // just opened.
    let read = unsafe {
        let file = libc::open(processes.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return;
        }
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        usize::try_from(read).unwrap_or(0)
    };
    let mut pid: libc::pid_t = 0;
    for &byte in &text[..read] {
        if byte.is_ascii_digit() {
            pid = pid.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
            continue;
        }
        // SAFETY: async-signal-safe; whoever is in our group was started to be there.
        unsafe {
            if pid > 0 && pid != libc::getpid() {
                libc::kill(pid, libc::SIGKILL);
            }
        }
        pid = 0;
    }
}
