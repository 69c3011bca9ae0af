//! What the program's memory group tells of itself.
//!
//! `coldpress run` says which group it is: the one with the least limit on the way from the program's own to the root.
//! Its `memory.stat` is opened in the pager's table of descriptors, in a forked child again: what that takes is the path,
//! which is copied before `main`. Where the path leads nowhere any more (`chroot`, a mount namespace of the program's
//! own) the group is not watched.

use crate::machine::linux::open;
use crate::machine::os::{GroupBounds, MemoryGroup};
use coldpress_linux::text::Text;
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;

/// Longest path of a group's directory.
const PATH_BYTES: usize = 1024;

/// Where the group is, once `LIMIT` is not 0.
struct Directory(UnsafeCell<Text<PATH_BYTES>>);

// SAFETY: written once, before the process has a second thread.
unsafe impl Sync for Directory {}

static DIRECTORY: Directory = Directory(UnsafeCell::new(Text::new()));
static LIMIT: AtomicU64 = AtomicU64::new(0);
static BUDGET: AtomicU64 = AtomicU64::new(0);

/// Takes what `coldpress run` says of it (`handed::MEMORY_GROUP`).
///
/// # Safety
/// The program has one thread, and the pager has not started.
pub unsafe fn configure(told: Option<&[u8]>) {
    if let Some((bounds, directory)) = told.and_then(parse) {
        // SAFETY: as the caller promises.
        unsafe { (*DIRECTORY.0.get()).push(directory) };
        BUDGET.store(bounds.budget_bytes, Relaxed);
        LIMIT.store(bounds.limit_bytes, Release);
    }
}

/// Limit, largest budget and directory. `None`: it is not such a text, or the path is too long.
fn parse(told: &[u8]) -> Option<(GroupBounds, &[u8])> {
    let mut parts = told.splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let digits = core::str::from_utf8(parts.next()?).ok()?;
        digits.parse::<u64>().ok()
    };
    let bounds = GroupBounds {
        limit_bytes: number()?,
        budget_bytes: number()?,
    };
    let directory = parts.next()?;
    let fits = directory.first() == Some(&b'/') && directory.len() + 64 < PATH_BYTES;
    let makes_sense = bounds.budget_bytes > 0 && bounds.budget_bytes <= bounds.limit_bytes;
    (fits && makes_sense).then_some((bounds, directory))
}

/// The group's `memory.stat`, and the file in which version 1 tells what the kernel has for itself.
#[derive(Debug)]
pub struct GroupFile {
    statistics: OwnedFd,
    kernel: Option<OwnedFd>,
}

/// Opens a file of the group.
fn open_of_group(name: &[u8]) -> Option<OwnedFd> {
    let mut path = Text::<PATH_BYTES>::new();
    // SAFETY: `LIMIT` is set, so nobody writes to it any more.
    path.push(unsafe { (*DIRECTORY.0.get()).as_bytes() });
    path.push(name);
    open(path.as_c_str()?, OFlags::NOCTTY).ok()
}

impl MemoryGroup for GroupFile {
    fn open() -> Option<Self> {
        if LIMIT.load(Acquire) == 0 {
            return None;
        }
        Some(Self {
            statistics: open_of_group(b"/memory.stat")?,
            kernel: open_of_group(b"/memory.kmem.usage_in_bytes"),
        })
    }

    fn bounds(&self) -> GroupBounds {
        GroupBounds {
            limit_bytes: LIMIT.load(Relaxed),
            budget_bytes: BUDGET.load(Relaxed),
        }
    }

    fn statistics(&self, into: &mut [u8]) -> Option<usize> {
        rustix::io::pread(&self.statistics, into, 0).ok()
    }

    fn kernel_bytes(&self) -> Option<u64> {
        let mut text = [0u8; 24];
        let len = rustix::io::pread(self.kernel.as_ref()?, &mut text, 0).ok()?;
        let digits = core::str::from_utf8(&text[..len]).ok()?;
        digits.trim_ascii().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_or_left_alone() {
        let bounds = GroupBounds {
            limit_bytes: 256,
            budget_bytes: 240,
        };
        let read = parse(b"256 240 /sys/fs/cgroup/a b").unwrap();
        assert_eq!(read, (bounds, b"/sys/fs/cgroup/a b".as_slice()));
        let long = [b"256 240 /".as_slice(), &[b'a'; PATH_BYTES]].concat();
        for wrong in [
            b"".as_slice(),
            b"256",
            b"256 240",
            b"256 240 relative",
            b"240 256 /above",
            b"256 0 /none",
            b"x 240 /a",
            &long,
        ] {
            assert_eq!(parse(wrong), None);
        }
    }
}
