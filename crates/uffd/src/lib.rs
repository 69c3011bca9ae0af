//! Every userfaultfd and pagemap call that Coldpress makes, and their `unsafe`.
//!
//! * [`userfaultfd`]: one open userfaultfd: registering ranges, moving pages out, copying pages
//!   in, reading faults and events.
//! * [`pagemap`]: which pages of a range are populated (`PAGEMAP_SCAN`).
//!
//! The crate decides no policy, keeps no state besides its descriptors, allocates nothing and
//! uses raw system calls without `errno`, so that it may be used on a fault path inside a
//! program whose libc is in any state.
//!
//! Behaviour of the kernel that its users rely on is tested in `tests/`, one file a fact;
//! `docs/kernel-behaviour.md` lists them.
#![no_std]
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod pagemap;
pub mod userfaultfd;

pub use pagemap::{Pagemap, Region};
pub use rustix::io::Errno;
pub use userfaultfd::{Access, Features, Message, Moved, Tier, Userfaultfd};

/// Whether `madvise` goes on behind a mapping that is split while its event waits to be read. Before Linux 6.17 it drops
/// what lies in the first part and answers 0 (`madvise_walk_vmas` in `mm/madvise.c`): pages stay that the program has
/// dropped.
pub fn madvise_outlasts_splits() -> bool {
    is_at_least(rustix::system::uname().release().to_bytes(), [6, 17])
}

/// Whether a release of the kernel ("6.18.44-cloud") is at least this one.
fn is_at_least(release: &[u8], least: [u32; 2]) -> bool {
    let number = |digits: &[u8]| {
        let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number: u32, digit| {
            number.saturating_mul(10) + u32::from(digit - b'0')
        })
    };
    let mut parts = release.split(|&byte| byte == b'.').map(number);
    [parts.next().unwrap_or(0), parts.next().unwrap_or(0)] >= least
}

/// Bytes in a page (x86_64).
pub const PAGE_SIZE: usize = 4096;

/// A half-open range of addresses, `start..end`, both multiples of [`PAGE_SIZE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// First address.
    pub start: usize,
    /// First address behind the range.
    pub end: usize,
}

impl AddressRange {
    /// The range of `len` bytes from `start`.
    pub const fn new(start: usize, len: usize) -> Self {
        Self {
            start,
            end: start + len,
        }
    }

    /// Bytes in the range.
    pub const fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether the range has no byte.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Whether `address` lies in the range.
    pub const fn contains(self, address: usize) -> bool {
        self.start <= address && address < self.end
    }

    /// The range, rounded out to pages.
    pub const fn whole_pages(self) -> Self {
        Self {
            start: self.start & !(PAGE_SIZE - 1),
            end: self.end.next_multiple_of(PAGE_SIZE),
        }
    }

    /// What the two ranges have in common (possibly empty).
    pub fn intersect(self, other: Self) -> Self {
        Self {
            start: self.start.max(other.start),
            end: self.end.min(other.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_at_least;

    #[test]
    fn releases_are_compared_by_number() {
        for (release, is_new) in [
            ("6.17.0", true),
            ("6.18.44-fc-v595", true),
            ("7.0-rc1", true),
            ("6.9.12", false),
            ("5.19", false),
            ("", false),
        ] {
            assert_eq!(
                is_at_least(release.as_bytes(), [6, 17]),
                is_new,
                "{release}"
            );
        }
    }
}
