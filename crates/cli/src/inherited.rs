//! Descriptors that the command was started with: they are the program's once it runs.
//!
//! A pipe is at its end, a lock free and a port closed when nobody holds them open any more. What the program closes
//! must not stay open here. Standard error does: messages go there (docs/limits.md).
//!
//! A record lock (`fcntl`, `lockf`) is of the process that took it and is not handed to a child; natively it would be the
//! program's after `exec`. So it is kept here, as long as the program runs: closing any descriptor of its file would end it.

use std::fs::{self, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};

/// Lets go of all that was inherited but standard error and `kept`. What is opened here is close-on-exec, so what was
/// inherited is what is not. Standard input and output lead to `/dev/null` afterwards, so that no file gets their numbers.
pub fn let_go(kept: &[RawFd]) {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let locked = locked_files(
        &fs::read_to_string("/proc/locks").unwrap_or_default(),
        std::process::id(),
    );
    let inherited: Vec<RawFd> = numbers
        .filter(|number| !kept.contains(number) && is_inherited(*number))
        .filter(|&number| locked.is_empty() || !is_one_of(number, &locked))
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

/// Goes where nobody wants to unmount anything: the program may want to unmount where it was started.
pub fn leave_directory() {
    let _ = std::env::set_current_dir("/");
}

fn is_inherited(number: RawFd) -> bool {
    // SAFETY: the call asks, and changes nothing.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// Inodes of files on which a process has record locks: lines like `1: POSIX  ADVISORY  WRITE 4242 08:01:131 0 EOF`
/// (`proc(5)`). The device is not compared: a file system of several devices (btrfs) names another one there than `stat`
/// does, and to keep a descriptor too many harms less than to end a lock.
fn locked_files(locks: &str, process: u32) -> Vec<u64> {
    let file = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "POSIX", _, _, owner, file, ..] = fields[..] else {
            return None;
        };
        let inode = file.rsplit(':').next()?.parse().ok()?;
        (owner.parse() == Ok(process)).then_some(inode)
    };
    locks.lines().filter_map(file).collect()
}

fn is_one_of(number: RawFd, inodes: &[u64]) -> bool {
    // No second descriptor is made: closing that one would end the lock.
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call fills the structure in, or fails.
    let stat = unsafe {
        match libc::fstat(number, stat.as_mut_ptr()) {
            0 => stat.assume_init(),
            _ => return false,
        }
    };
    inodes.contains(&stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_locks_of_this_process_are_found() {
        let locks = "1: POSIX  ADVISORY  WRITE 4242 08:1f:131 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4242 08:01:132 0 EOF\n\
                     2: -> POSIX  ADVISORY  WRITE 4242 08:01:133 0 EOF\n\
                     3: POSIX  ADVISORY  READ  4243 08:01:134 0 0\n\
                     4: OFDLCK ADVISORY  WRITE -1 08:01:135 0 EOF\n";
        assert_eq!(locked_files(locks, 4242), [131]);
        assert!(locked_files("", 4242).is_empty());
    }
}
