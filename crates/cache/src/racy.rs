//! Access to pages that others may write, or the kernel take, at the same time.
//!
//! No reference to a page is ever made. Bytes go in and out by instructions that the compiler
//! cannot look into, reorder or merge; that what came out is whole is decided afterwards, by the
//! page's marker and state.

use crate::PAGE_BYTES;
use std::sync::atomic::{AtomicU8, Ordering};

/// Copies `bytes` bytes, one side of which may be a page that changes meanwhile.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes` bytes, and they do not overlap. What is not in
/// a page is not used by others.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: copies exactly what the caller vouches for; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let mut done = 0;
        let aligned = (from as usize | to as usize) % 8 == 0;
        while aligned && done + 8 <= bytes {
            // SAFETY: inside both ranges, aligned.
            unsafe {
                let word = from.add(done).cast::<u64>().read_volatile();
                to.add(done).cast::<u64>().write_volatile(word);
            }
            done += 8;
        }
        while done < bytes {
            // SAFETY: inside both ranges.
            unsafe { to.add(done).write_volatile(from.add(done).read_volatile()) };
            done += 1;
        }
    }
}

/// The last byte of the page at `page`: the marker, while the page is open.
///
/// # Safety
/// `page` is a page of the cache's region, which outlives the use of what is returned.
#[inline]
pub(crate) unsafe fn marker<'a>(page: *mut u8) -> &'a AtomicU8 {
    // SAFETY: inside the page. Others reach this byte by an atomic, by `copy` or through a pointer
    // that the one writer holds; it is never part of another reference.
    unsafe { AtomicU8::from_ptr(page.add(PAGE_BYTES - 1)) }
}

/// Writes the marker's own value over it, which makes the page dirty: from then on the kernel does
/// not take it. False, and a page of zeros, if it was taken before. The content never changes, so
/// anyone may do this at any time.
///
/// # Safety
/// As for [`marker`].
#[inline]
pub(crate) unsafe fn hold(page: *mut u8) -> bool {
    // SAFETY: handed on.
    let marker = unsafe { marker(page) };
    let value = marker.load(Ordering::Relaxed);
    value != 0
        && marker
            .compare_exchange(value, value, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
}
