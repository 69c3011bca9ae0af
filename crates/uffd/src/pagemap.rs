//! Which pages of a range are populated: the `PAGEMAP_SCAN` ioctl of `/proc/PID/pagemap`
//! (Linux 6.7, kernel documentation `admin-guide/mm/pagemap.rst`). And whether another process maps a page: bit 56 of its
//! entry in the file (Linux 4.2).

use crate::{AddressRange, Errno};
use core::ffi::{CStr, c_void};
use linux_raw_sys::general as sys;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};

const PAGEMAP_SCAN: Opcode = opcode::read_write::<sys::pm_scan_arg>(b'f', 16);
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_ZERO: u64 = 1 << 5;

/// Which pages are looked for, by what the kernel says of them.
struct Pages {
    none_of: u64,
    any_of: u64,
}

const POPULATED: Pages = Pages {
    none_of: PAGE_IS_ZERO | PAGE_IS_FILE,
    any_of: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
};

/// Nothing is asked of them, so they need not be there either.
const MAPPED: Pages = Pages {
    none_of: 0,
    any_of: 0,
};

/// A run of populated pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// First address behind the run.
    pub end: u64,
    categories: u64,
}

/// The open page map of a process.
#[derive(Debug)]
pub struct Pagemap {
    fd: OwnedFd,
}

struct Scan<'a>(&'a mut sys::pm_scan_arg);

// SAFETY: PAGEMAP_SCAN reads and writes its argument structure and writes `vec_len` regions to
// the vector it names, which `populated` below provides.
unsafe impl Ioctl for Scan<'_> {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        PAGEMAP_SCAN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        core::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

impl Pagemap {
    /// Opens the page map of this process: by way of the calling thread, since the first may have ended.
    ///
    /// # Errors
    /// `EACCES` where the process is not dumpable, `EMFILE`, `ENOENT` without `/proc`.
    pub fn open() -> Result<Self, Errno> {
        Self::open_file(c"/proc/thread-self/pagemap")
    }

    /// Opens the page map of process `pid`.
    ///
    /// # Errors
    /// `EACCES` where the process may not be looked into, `ENOENT` where there is none.
    pub fn of(pid: u32) -> Result<Self, Errno> {
        const DIGITS: usize = 10;
        let mut path = [0; b"/proc//pagemap".len() + DIGITS + 1];
        let (mut digits, mut rest, mut first) = ([0; DIGITS], pid, DIGITS);
        while first == DIGITS || rest > 0 {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let parts: [&[u8]; 3] = [b"/proc/", &digits[first..], b"/pagemap"];
        let mut len = 0;
        for part in parts {
            path[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        Self::open_file(CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?)
    }

    fn open_file(path: &CStr) -> Result<Self, Errno> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { fd })
    }

    /// Finds runs of anonymous pages in `range` that hold content, present or swapped out
    /// (zero-page mappings not counted), as
    /// many as `into` holds. Returns how many were found and the address up to which the range
    /// was looked at.
    ///
    /// # Errors
    /// `ENOTTY` before Linux 6.7; whatever the ioctl gives.
    pub fn populated(
        &self,
        range: AddressRange,
        into: &mut [Region],
    ) -> Result<(usize, usize), Errno> {
        self.scan(range, into, 0, POPULATED)
    }

    /// Address of the first page in `range` that [`populated`](Self::populated) would find. Holes cost what their
    /// upper page tables cost, so a terabyte without content is passed over in a fraction of a millisecond.
    ///
    /// # Errors
    /// As `populated`.
    pub fn first_populated(&self, range: AddressRange) -> Result<Option<usize>, Errno> {
        self.first(range, POPULATED)
    }

    /// Address of the first page in `range` where anything is mapped, whether it has content or not. Where nothing is, no
    /// more is looked at than the list of mappings.
    ///
    /// # Errors
    /// As [`populated`](Self::populated).
    pub fn first_mapped(&self, range: AddressRange) -> Result<Option<usize>, Errno> {
        self.first(range, MAPPED)
    }

    fn first(&self, range: AddressRange, pages: Pages) -> Result<Option<usize>, Errno> {
        let mut first = [Region::default()];
        let (found, _) = self.scan(range, &mut first, 1, pages)?;
        Ok((found > 0).then_some(first[0].start as usize))
    }

    /// Whether the page at `address` is present, anonymous and mapped by this process alone: no process that was forked
    /// since it was written, and has neither ended nor executed another program, has it. (As the kernel moves a page it
    /// may say so for a moment, and as it swaps pages in.)
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn is_mapped_once(&self, address: usize) -> Result<bool, Errno> {
        const PRESENT: u64 = 1 << 63;
        const OF_A_FILE: u64 = 1 << 61;
        const MAPPED_ONCE: u64 = 1 << 56;
        let mut entry = [0; 8];
        let at = (address / crate::PAGE_SIZE * entry.len()) as u64;
        if rustix::io::pread(&self.fd, &mut entry, at)? < entry.len() {
            return Ok(false);
        }
        let entry = u64::from_ne_bytes(entry);
        Ok(entry & (PRESENT | OF_A_FILE | MAPPED_ONCE) == PRESENT | MAPPED_ONCE)
    }

    fn scan(
        &self,
        range: AddressRange,
        into: &mut [Region],
        max_pages: u64,
        pages: Pages,
    ) -> Result<(usize, usize), Errno> {
        const { assert!(size_of::<Region>() == size_of::<sys::page_region>()) };
        let mut arg = sys::pm_scan_arg {
            size: size_of::<sys::pm_scan_arg>() as u64,
            flags: 0,
            start: range.start as u64,
            end: range.end as u64,
            walk_end: 0,
            vec: into.as_mut_ptr() as u64,
            vec_len: into.len() as u64,
            max_pages,
            category_inverted: pages.none_of,
            category_mask: pages.none_of,
            category_anyof_mask: pages.any_of,
            return_mask: PAGE_IS_FILE,
        };
        // SAFETY: `into` is writable for `vec_len` regions of the kernel's layout.
        let found = unsafe { rustix::ioctl::ioctl(self.fd.as_fd(), Scan(&mut arg))? };
        Ok((found as usize, arg.walk_end as usize))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn the_page_map_of_a_process_is_found_by_its_number() {
        assert!(super::Pagemap::of(std::process::id()).is_ok());
        for nobody in [0, u32::MAX] {
            assert!(super::Pagemap::of(nobody).is_err());
        }
    }

    #[test]
    fn the_opcode_is_that_of_the_kernel_headers() {
        assert_eq!(super::PAGEMAP_SCAN, 0xC060_6610);
    }
}
