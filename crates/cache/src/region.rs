//! Memory from the kernel: pages, and tables beside them.
//!
//! Every system call of the cache is in this file.
//!
//! * M1 A [`Region`] is mapped readable and writable from its making to its drop, and nobody else
//!   maps or unmaps there.
//! * M2 A fence of one inaccessible page stands on both sides: a caller that writes past its page
//!   at the very end faults, and the kernel cannot merge the mapping with a neighbour, so that
//!   figures of `smaps` are ours alone.
//! * M3 A [`Table`] is a region that only its items use.

use crate::PAGE_BYTES;
use crate::error::Error;
use std::fs::OpenOptions;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Fenced memory of whole pages, zero at first.
pub(crate) struct Region {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: a region is an address range; what is read and written there is up to its users.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// What the kernel is told of a range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Advice {
    /// It may take the pages instead of swapping them (`MADV_FREE`).
    Free,
    /// It takes the pages at once (`MADV_DONTNEED`).
    DontNeed,
}

impl Region {
    /// Address space for `bytes`, backed as it is touched.
    pub fn reserve(bytes: usize) -> Result<Region, Error> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let fail = |call| Error::Memory {
            call,
            bytes,
            source: io::Error::last_os_error(),
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let fenced = bytes + 2 * PAGE_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(null_mut(), fenced, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(fail("mmap"));
        }
        let region = Region {
            // SAFETY: inside the mapping just made.
            base: unsafe { start.cast::<u8>().add(PAGE_BYTES) },
            bytes,
        };
        // SAFETY: the inside of the mapping just made.
        let opened = unsafe {
            libc::mprotect(
                region.base.cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if opened != 0 {
            return Err(fail("mprotect"));
        }
        Ok(region)
    }

    /// Pages must come and go one by one: in a huge page one write keeps 512 entries from the
    /// kernel, and one reclaim loses them all.
    pub fn small_pages(&self) {
        // SAFETY: advice for our own range; where it is refused there are no huge pages.
        unsafe { libc::madvise(self.base.cast(), self.bytes, libc::MADV_NOHUGEPAGE) };
    }

    /// Address of page `slot`.
    pub fn page(&self, slot: u32) -> *mut u8 {
        debug_assert!((slot as usize) < self.bytes / PAGE_BYTES);
        self.base.wrapping_add(slot as usize * PAGE_BYTES)
    }

    /// Pages of the region.
    pub fn pages(&self) -> usize {
        self.bytes / PAGE_BYTES
    }

    /// Addresses of the region.
    pub fn addresses(&self) -> Range<usize> {
        self.base as usize..self.base as usize + self.bytes
    }

    /// Backs pages from `first` on by a nameless file in `directory`.
    pub fn map_file(&self, first: u32, pages: u32, directory: &Path) -> Result<(), Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let bytes = pages as usize * PAGE_BYTES;
        let fail = |call, source| Error::Memory {
            call,
            bytes,
            source,
        };
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = directory.join(format!("coldpress-cache-{}-{number}", std::process::id()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|e| fail("open of a file", e))?;
        std::fs::remove_file(&path).map_err(|e| fail("unlink of a file", e))?;
        file.set_len(bytes as u64)
            .map_err(|e| fail("ftruncate", e))?;
        // SAFETY: replaces pages of our own region (M1), which nobody uses before the cache is made.
        let mapped = unsafe {
            libc::mmap(
                self.page(first).cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED,
                file.as_raw_fd(),
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(fail("mmap of a file", io::Error::last_os_error()));
        }
        Ok(())
    }

    /// Tells the kernel of `pages` pages. False where it refuses (locked memory).
    pub fn advise(&self, first: u32, pages: u32, advice: Advice) -> bool {
        let advice = match advice {
            Advice::Free => libc::MADV_FREE,
            Advice::DontNeed => libc::MADV_DONTNEED,
        };
        // SAFETY: pages of our own region, whose users expect that the kernel takes them.
        unsafe { libc::madvise(self.page(first).cast(), pages as usize * PAGE_BYTES, advice) == 0 }
    }

    /// Which pages are in memory: bit 0 of each byte. All of them where the kernel does not say.
    pub fn residency(&self, first: u32, into: &mut [u8]) {
        // SAFETY: `into` has a byte for each page asked for.
        let asked = unsafe {
            libc::mincore(
                self.page(first).cast(),
                into.len() * PAGE_BYTES,
                into.as_mut_ptr(),
            )
        };
        if asked != 0 {
            into.fill(1);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own mapping with its fences (M1, M2); its users are gone.
        unsafe {
            libc::munmap(
                self.base.sub(PAGE_BYTES).cast(),
                self.bytes + 2 * PAGE_BYTES,
            )
        };
    }
}

/// Types that are valid as zeroed memory and shared between threads.
///
/// # Safety
/// All-zero bytes are a valid value, there is no drop glue, and the alignment is at most a page.
pub(crate) unsafe trait Zeroed: Sync {}

// SAFETY: an integer.
unsafe impl Zeroed for std::sync::atomic::AtomicU8 {}

// SAFETY: an integer.
unsafe impl Zeroed for std::sync::atomic::AtomicU32 {}

/// A table of `T` in memory of its own, zero at first, backed as it is touched. A table that is
/// too large is an error of [`Region::reserve`] and not an abort of the allocator.
pub(crate) struct Table<T: Zeroed> {
    region: Region,
    items: usize,
    _items: PhantomData<T>,
}

impl<T: Zeroed> Table<T> {
    /// A table of `items` items.
    pub fn new(items: usize) -> Result<Table<T>, Error> {
        let region = Region::reserve(items.saturating_mul(size_of::<T>()))?;
        Ok(Table {
            region,
            items,
            _items: PhantomData,
        })
    }
}

impl<T: Zeroed> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the region has room for the items, is zero at first, which is a valid `T`, and
        // is used by the items alone (M3).
        unsafe { std::slice::from_raw_parts(self.region.base.cast(), self.items) }
    }
}
