//! Putting content back into place without a pager: in a forked child that cannot have one.
//!
//! A child may have no userfaultfd (it has given up the rights of its parent), no `/proc` (a chroot, Landlock, a
//! process that is not dumpable), no further thread (`RLIMIT_NPROC`) and no free descriptor. It has one thread, all
//! of whose signals are blocked, and none of its memory is registered: a page that is away is a hole. Three ways
//! lead there, each for what the one before does not reach:
//!
//! 1. A plain store, where the mapping may be written. `MADV_POPULATE_WRITE` tells, and needs no right.
//! 2. `UFFDIO_COPY` of a userfaultfd that sees faults of user mode only, which every process may make: it fills memory
//!    whatever its protection. Nobody reads from it, since nobody touches the memory meanwhile.
//! 3. The mapping is made writable, written, and made again what it was: as `/proc/self/maps` says, or, where that
//!    cannot be read, as the parent has seen it before the fork.
//!
//! `/proc/self/mem` is no way: it is closed to all that such children have given up.
//!
//! Content that fails its checksum has no bytes to put anywhere: the page is made inaccessible, so that a touch ends
//! the child rather than reads zeros.

use crate::Pager;
use crate::machine::linux::Linux;
use crate::machine::message;
use crate::machine::os::Os;
use coldpress_codec::Page;
use coldpress_engine::{Content, LEAF_PAGES, SEGMENT_PAGES};
use coldpress_linux::maps;
use coldpress_linux::sys;
use coldpress_uffd::{AddressRange, Errno, Features, PAGE_SIZE, Tier, Userfaultfd};
use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::mm::MprotectFlags as Protection;

impl Pager {
    /// Puts everything in place that is away. The only thread of a process without a pager.
    pub(crate) fn put_everything_back(&self) {
        let mut ways = Ways::new(self);
        self.for_each_remembered(|segment, index, is_in_place| {
            if !is_in_place {
                let address = self.host.windows.get(segment).address(index);
                ways.put_back(segment, index, address);
            }
        });
    }

    /// Whether anything was away in the parent, when its process was copied.
    pub(crate) fn is_anything_away(&self) -> bool {
        let host = &self.host;
        host.windows.iter().any(|(segment, _)| {
            let mut leaves = (0..SEGMENT_PAGES).step_by(LEAF_PAGES as usize);
            leaves.any(|leaf| self.engine.remembered(segment, leaf) != 0)
        })
    }

    /// Calls `with` for every page of which something is remembered: away, or restored in the moment of the fork, which
    /// is its third argument: in place.
    pub(crate) fn for_each_remembered(&self, mut with: impl FnMut(u32, u32, bool)) {
        for (segment, window) in self.host.windows.iter() {
            for leaf in (0..SEGMENT_PAGES).step_by(LEAF_PAGES as usize) {
                let mut rest = self.engine.remembered(segment, leaf);
                if rest == 0 {
                    continue;
                }
                let first = leaf + rest.trailing_zeros();
                let behind = leaf + LEAF_PAGES - rest.leading_zeros();
                let resident = sys::resident_if_mapped(AddressRange {
                    start: window.address(first),
                    end: window.address(behind - 1) + PAGE_SIZE,
                });
                while rest != 0 {
                    let index = leaf + rest.trailing_zeros();
                    rest &= rest - 1;
                    let is_resident = match resident {
                        Ok(pages) => pages >> (index - first) & 1 != 0,
                        Err(_) => Linux::is_resident(window.address(index)),
                    };
                    // A page that was restored may have been written since, and be swapped out: then it is not resident.
                    let is_in_place = is_resident || self.was_restored(segment, index);
                    with(segment, index, is_in_place);
                }
            }
        }
    }

    /// Puts one page in place that no userfaultfd can have. The program's only thread waits.
    pub(crate) fn put_back_one(&self, segment: u32, index: u32) {
        let address = self.host.windows.get(segment).address(index);
        if !Linux::is_resident(address) && !self.was_restored(segment, index) {
            Ways::new(self).put_back(segment, index, address);
        }
    }
}

/// What has been opened and found out on the way.
struct Ways<'a> {
    pager: &'a Pager,
    user_mode: Option<Result<Userfaultfd, Errno>>,
    /// The mapping of the last page that took the third way.
    mapping: Option<(AddressRange, Protection)>,
}

impl<'a> Ways<'a> {
    fn new(pager: &'a Pager) -> Self {
        Self {
            pager,
            user_mode: None,
            mapping: None,
        }
    }

    fn put_back(&mut self, segment: u32, index: u32, address: usize) {
        let pager = self.pager;
        // SAFETY: no pager thread works in this process yet, or ever; worker 0 is nobody else's.
        let mut worker = unsafe { pager.workplace.worker(0) };
        let done = match pager.engine.peek(pager, &mut worker, segment, index) {
            Content::Bytes(page) => self.write(address, page),
            Content::Present | Content::Nothing => true,
            Content::Doubtful => close(address),
        };
        if !done {
            message::say(format_args!(
                "page {address:#x} could not be restored in a forked child that may not use userfaultfd; the child \
                 ends here rather than read zeros"
            ));
            sys::exit_process(125);
        }
    }

    fn write(&mut self, address: usize, page: &Page) -> bool {
        // SAFETY: a page of the program, of which no content changes: it is a hole.
        match unsafe { sys::madvise(address, PAGE_SIZE, sys::MADV_POPULATE_WRITE) } {
            0 => store(address, page),
            // The program has kept it from its children.
            _ if !sys::is_mapped(address) => true,
            _ => self.copy(address, page) || self.reprotect(address, page),
        }
    }

    fn copy(&mut self, address: usize, page: &Page) -> bool {
        let user_mode = self.user_mode.get_or_insert_with(|| {
            let uffd = Userfaultfd::from_system_call(Tier::UserMode)?;
            uffd.handshake(Features(0)).map(|_| uffd)
        });
        let Ok(uffd) = user_mode else { return false };
        // SAFETY: nobody touches the memory until the descriptor is closed, which ends the registration; the page is
        // readable and ours.
        unsafe {
            uffd.register(AddressRange::new(address, PAGE_SIZE)).is_ok()
                && uffd.copy(address, page.as_ptr(), PAGE_SIZE) == Ok(PAGE_SIZE)
        }
    }

    fn reprotect(&mut self, address: usize, page: &Page) -> bool {
        let known = self.mapping.filter(|(range, _)| range.contains(address));
        let (range, protection) = known.or_else(|| protection_of(address)).unwrap_or_else(|| {
            (
                AddressRange::new(address, PAGE_SIZE),
                guess(&self.pager.fork.code, address),
            )
        });
        self.mapping = Some((range, protection));
        let writable = Protection::READ | Protection::WRITE;
        protect(address, writable) && store(address, page) && protect(address, protection)
    }
}

fn store(address: usize, page: &Page) -> bool {
    // SAFETY: writable memory of the program, whose only thread waits or is this one. The page is a hole, so
    // nothing is overwritten.
    unsafe { core::ptr::copy_nonoverlapping(page.as_ptr(), address as *mut u8, PAGE_SIZE) };
    true
}

fn protect(address: usize, protection: Protection) -> bool {
    // SAFETY: the page keeps its content, and nobody else is there to touch it.
    unsafe { rustix::mm::mprotect(address as *mut c_void, PAGE_SIZE, protection) }.is_ok()
}

/// Nobody shall read what a page is not.
fn close(address: usize) -> bool {
    message::say(format_args!(
        "page {address:#x}: its stored content fails its checksum; it cannot be touched in this forked child"
    ));
    !sys::is_mapped(address) || protect(address, Protection::empty())
}

/// The mapping of `address` and its protection, as the kernel tells.
fn protection_of(address: usize) -> Option<(AddressRange, Protection)> {
    let mut buffer = [0u8; maps::BUFFER_BYTES];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let maps = rustix::fs::open(maps::PATH, flags, Mode::empty()).ok()?;
    let mut found = None;
    maps::for_each_line(maps.as_fd(), &mut buffer, |line| {
        let mapping = maps::parse(line).filter(|m| m.range.contains(address));
        if let Some(mapping) = mapping {
            found = Some((mapping.range, of_letters(mapping.permissions)));
        }
    })
    .ok()?;
    found
}

fn of_letters(permissions: [u8; 4]) -> Protection {
    let mut protection = Protection::empty();
    protection.set(Protection::READ, permissions[0] == b'r');
    protection.set(Protection::WRITE, permissions[1] == b'w');
    protection.set(Protection::EXEC, permissions[2] == b'x');
    protection
}

/// The protection of a page that cannot be written, where the kernel tells nobody: whether it can be read it shows,
/// and where code lay the parent has seen.
fn guess(code: &Code, address: usize) -> Protection {
    // SAFETY: no content changes.
    let readable = unsafe { sys::madvise(address, PAGE_SIZE, sys::MADV_POPULATE_READ) } == 0;
    match readable {
        true if code.contains(address) => Protection::READ | Protection::EXEC,
        true => Protection::READ,
        false => Protection::empty(),
    }
}

/// Anonymous memory of the program from which code runs, and which cannot be written: as seen before a fork.
pub struct Code {
    ranges: [core::sync::atomic::AtomicUsize; 2 * CODE_RANGES],
    count: core::sync::atomic::AtomicUsize,
}

/// With more of them, all that can be read counts as code.
const CODE_RANGES: usize = 256;

impl Code {
    /// None.
    pub const fn new() -> Self {
        Self {
            ranges: [const { core::sync::atomic::AtomicUsize::new(0) }; 2 * CODE_RANGES],
            count: core::sync::atomic::AtomicUsize::new(0),
        }
    }

    pub(crate) fn forget(&self) {
        self.count.store(0, Relaxed);
    }

    pub(crate) fn note(&self, range: AddressRange) {
        let n = self.count.fetch_add(1, Relaxed);
        if let Some([start, end]) = self.ranges.get(2 * n..2 * n + 2) {
            start.store(range.start, Relaxed);
            end.store(range.end, Relaxed);
        }
    }

    fn contains(&self, address: usize) -> bool {
        let count = self.count.load(Relaxed);
        if count > CODE_RANGES {
            return true;
        }
        let mut ranges = self.ranges[..2 * count].chunks(2);
        ranges.any(|r| r[0].load(Relaxed) <= address && address < r[1].load(Relaxed))
    }
}

impl Default for Code {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_known_by_its_address_until_there_is_too_much() {
        let code = Code::new();
        assert!(!code.contains(0x1000));
        code.note(AddressRange::new(0x1000, 0x1000));
        assert!(code.contains(0x1000) && code.contains(0x1FFF) && !code.contains(0x2000));
        (0..CODE_RANGES).for_each(|_| code.note(AddressRange::new(0x1000, 0x1000)));
        assert!(code.contains(0x9000), "too many to tell");
        code.forget();
        assert!(!code.contains(0x1000));
    }

    #[test]
    fn letters_are_protections() {
        assert_eq!(of_letters(*b"r-xp"), Protection::READ | Protection::EXEC);
        assert_eq!(of_letters(*b"---p"), Protection::empty());
        assert_eq!(of_letters(*b"rw-p"), Protection::READ | Protection::WRITE);
    }
}
