//! Descriptors that the command was started with: they are the program's once it runs.
//!
//! A pipe is at its end, a lock free and a port closed when nobody holds them open any more. What the program closes
//! must not stay open here. Standard error does: messages go there (docs/limits.md).

use std::fs::{self, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};

/// Lets go of all that was inherited but standard error and `kept`. What is opened here is close-on-exec, so what was
/// inherited is what is not. Standard input and output lead to `/dev/null` afterwards, so that no file gets their numbers.
pub fn let_go(kept: &[RawFd]) {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let inherited: Vec<RawFd> = numbers
        .filter(|number| !kept.contains(number) && is_inherited(*number))
        .collect();
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null");
    for number in inherited {
        match (number, &nowhere) {
            (libc::STDERR_FILENO, _) => {}
            // SAFETY: both are open; nothing here reads or writes standard input or output any more.
            (0 | 1, Ok(nowhere)) => unsafe {
                libc::dup2(nowhere.as_raw_fd(), number);
            },
            (0 | 1, Err(_)) => {}
            // SAFETY: no code here has opened it, so none will use it.
            (_, _) => unsafe {
                libc::close(number);
            },
        }
    }
}

fn is_inherited(number: RawFd) -> bool {
    // SAFETY: the call asks, and changes nothing.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}
