//! What the program's memory groups tell of themselves.
//!
//! `coldpress run` says which they are: the program's own, and those with a limit on the way from it to the root. Their
//! `memory.stat` is opened in the pager's table of descriptors, in a forked child again: what that takes are the paths,
//! which are copied before `main`. A group whose path leads nowhere any more (`chroot`, a mount namespace of the
//! program's own) is not watched.

use crate::machine::linux::open;
use crate::machine::os::{GroupBounds, MemoryGroups, NO_LIMIT};
use coldpress_interface::config::handed::{MOST_GROUPS, NEXT_GROUP};
use coldpress_linux::text::Text;
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Release},
};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;

/// Longest path of a group's directory.
const PATH_BYTES: usize = 1024;

/// What `coldpress run` said of a group.
struct Group {
    bounds: GroupBounds,
    directory: Text<PATH_BYTES>,
}

/// The first `COUNT` of them.
struct Groups(UnsafeCell<[Group; MOST_GROUPS]>);

// SAFETY: written once, before the process has a second thread.
unsafe impl Sync for Groups {}

static GROUPS: Groups = Groups(UnsafeCell::new(
    [const {
        Group {
            bounds: GroupBounds {
                limit_bytes: 0,
                budget_bytes: 0,
            },
            directory: Text::new(),
        }
    }; MOST_GROUPS],
));
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Takes what `coldpress run` says of them (`handed::MEMORY_GROUPS`).
///
/// # Safety
/// The program has one thread, and the pager has not started.
pub unsafe fn configure(told: Option<&[u8]>) {
    // SAFETY: as the caller promises.
    let groups = unsafe { &mut *GROUPS.0.get() };
    let mut count = 0;
    for (bounds, directory) in told.into_iter().flat_map(parse) {
        let Some(group) = groups.get_mut(count) else {
            break;
        };
        group.bounds = bounds;
        group.directory.push(directory);
        count += 1;
    }
    COUNT.store(count, Release);
}

/// Bounds and directory of each; what is no such text, or has too long a path, is left out.
fn parse(told: &[u8]) -> impl Iterator<Item = (GroupBounds, &[u8])> {
    told.split(|&byte| byte == NEXT_GROUP)
        .filter_map(parse_group)
}

/// Limit, largest budget and directory. `None`: it is not such a text, or the path is too long.
fn parse_group(told: &[u8]) -> Option<(GroupBounds, &[u8])> {
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

/// What was said of them.
fn told() -> &'static [Group] {
    let count = COUNT.load(Acquire);
    // SAFETY: `COUNT` is set, so nobody writes to those before it any more.
    unsafe { &(&*GROUPS.0.get())[..count] }
}

/// What one tells: its `memory.stat`; the file in which version 1 says what the kernel has for itself, and the one in
/// which version 2 says the limit.
#[derive(Debug)]
struct Files {
    bounds: GroupBounds,
    statistics: OwnedFd,
    kernel: Option<OwnedFd>,
    limit: Option<OwnedFd>,
}

impl Files {
    fn open(group: &Group) -> Option<Self> {
        let file = |name: &[u8]| {
            let mut path = Text::<PATH_BYTES>::new();
            path.push(group.directory.as_bytes());
            path.push(name);
            open(path.as_c_str()?, OFlags::NOCTTY).ok()
        };
        Some(Self {
            bounds: group.bounds,
            statistics: file(b"/memory.stat")?,
            kernel: file(b"/memory.kmem.usage_in_bytes"),
            limit: file(b"/memory.max"),
        })
    }
}

/// The files of those that could be opened, which come first.
#[derive(Debug)]
pub struct GroupFiles([Option<Files>; MOST_GROUPS]);

impl GroupFiles {
    fn of(&self, number: usize) -> Option<&Files> {
        self.0.get(number)?.as_ref()
    }
}

impl MemoryGroups for GroupFiles {
    fn open() -> Option<Self> {
        let mut opened = told().iter().filter_map(Files::open);
        let files = core::array::from_fn(|_| opened.next());
        files[0].is_some().then_some(Self(files))
    }

    fn count(&self) -> usize {
        self.0.iter().flatten().count()
    }

    fn bounds(&self, number: usize) -> GroupBounds {
        self.of(number).expect("a number below the count").bounds
    }

    fn statistics(&self, number: usize, into: &mut [u8]) -> Option<usize> {
        rustix::io::pread(&self.of(number)?.statistics, into, 0).ok()
    }

    fn kernel_bytes(&self, number: usize) -> Option<u64> {
        read_bytes(self.of(number)?.kernel.as_ref()?)
    }

    fn limit_bytes(&self, number: usize) -> Option<u64> {
        read_bytes(self.of(number)?.limit.as_ref()?)
    }
}

/// The figure of a file that holds one.
fn read_bytes(file: &OwnedFd) -> Option<u64> {
    let mut text = [0u8; 24];
    let len = rustix::io::pread(file, &mut text, 0).ok()?;
    parse_bytes(&text[..len])
}

/// A number of bytes, or `max`.
fn parse_bytes(text: &[u8]) -> Option<u64> {
    match text.trim_ascii() {
        b"max" => Some(NO_LIMIT),
        digits => core::str::from_utf8(digits).ok()?.parse().ok(),
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
        let read = parse_group(b"256 240 /sys/fs/cgroup/a b").unwrap();
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
            assert_eq!(parse_group(wrong), None);
        }
    }

    #[test]
    fn a_limit_is_a_figure_or_none() {
        assert_eq!(parse_bytes(b"104857600\n"), Some(100 << 20));
        assert_eq!(parse_bytes(b"max\n"), Some(NO_LIMIT));
        assert_eq!(parse_bytes(b""), None);
    }

    #[test]
    fn those_around_it_follow() {
        let read = |told| parse(told).map(|(bounds, at)| (bounds.limit_bytes, at));
        let two = b"256 240 /a/b\n512 500 /a";
        let expected = [(256, b"/a/b".as_slice()), (512, b"/a")];
        assert!(read(two.as_slice()).eq(expected));
        assert!(read(b"256 240 relative\n512 500 /a").eq(expected.into_iter().skip(1)));
    }
}
