//! Access to pages that others may write, or the kernel take, at the same time.
//!
//! No reference to a page is ever made. Bytes go in and out by instructions that the compiler
//! cannot look into, reorder or merge; that what came out is whole is decided afterwards, by the
//! page's marker and state.

use crate::PAGE_BYTES;
use std::sync::atomic::{AtomicU8, Ordering};

/// Up to here moves by vector are faster than `rep movsb`, which takes some 10 ns to start.
const SHORT_BYTES: usize = 256;

/// Copies `bytes` bytes, one side of which may be a page that changes meanwhile.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes` bytes, and they do not overlap. What is not in
/// a page is not used by others.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if bytes <= SHORT_BYTES {
        // SAFETY: handed on.
        return unsafe { copy_short(from, to, bytes) };
    }
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

/// As [`copy`], for few bytes: in pieces, of which the last may overlap the one before.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_short(from: *const u8, to: *mut u8, bytes: usize) {
    /// Moves one piece, `at` bytes from both.
    macro_rules! piece {
        ($class:ident, $load:literal, $store:literal, $at:expr) => {
            // SAFETY: the caller vouches for the range, of which this is a part.
            unsafe {
                std::arch::asm!(
                    $load,
                    $store,
                    from = in(reg) from.add($at),
                    to = in(reg) to.add($at),
                    piece = out($class) _,
                    options(nostack, preserves_flags)
                )
            }
        };
    }
    /// Moves sixteen bytes.
    macro_rules! sixteen {
        ($at:expr) => {
            piece!(
                xmm_reg,
                "movdqu {piece}, [{from}]",
                "movdqu [{to}], {piece}",
                $at
            )
        };
    }
    if bytes >= 64 {
        let mut at = 0;
        while at + 64 < bytes {
            // SAFETY: the line is a part of the range.
            unsafe { copy_line(from.add(at), to.add(at)) };
            at += 64;
        }
        // SAFETY: as above.
        unsafe { copy_line(from.add(bytes - 64), to.add(bytes - 64)) };
    } else if bytes >= 16 {
        if bytes > 32 {
            sixteen!(16);
            sixteen!(bytes - 32);
        }
        sixteen!(0);
        sixteen!(bytes - 16);
    } else if bytes >= 8 {
        for at in [0, bytes - 8] {
            piece!(reg, "mov {piece}, [{from}]", "mov [{to}], {piece}", at);
        }
    } else if bytes >= 4 {
        for at in [0, bytes - 4] {
            piece!(reg, "mov {piece:e}, [{from}]", "mov [{to}], {piece:e}", at);
        }
    } else {
        for at in 0..bytes {
            piece!(reg_byte, "mov {piece}, [{from}]", "mov [{to}], {piece}", at);
        }
    }
}

/// Copies 64 bytes.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_line(from: *const u8, to: *mut u8) {
    // SAFETY: copies exactly what the caller vouches for.
    unsafe {
        std::arch::asm!(
            "movdqu {a}, [{from}]",
            "movdqu {b}, [{from} + 16]",
            "movdqu {c}, [{from} + 32]",
            "movdqu {d}, [{from} + 48]",
            "movdqu [{to}], {a}",
            "movdqu [{to} + 16], {b}",
            "movdqu [{to} + 32], {c}",
            "movdqu [{to} + 48], {d}",
            from = in(reg) from,
            to = in(reg) to,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_each_length_and_nothing_beside() {
        let from: Vec<u8> = (0..600u32).map(|i| (i * 7 + 1) as u8).collect();
        for bytes in 0..=600 {
            let mut to = vec![0u8; 640];
            // SAFETY: both are long enough.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr().add(20), bytes) };
            assert!(
                to[..20]
                    .iter()
                    .chain(&to[20 + bytes..])
                    .all(|&byte| byte == 0)
            );
            assert_eq!(to[20..20 + bytes], from[..bytes], "{bytes}");
        }
    }
}
