//! Entries of less than a page, from C.

use super::{coldpress_cache, misuse, opened, refuse};
use crate::error::Error;
use std::ffi::c_void;

/// Keeps `bytes` bytes as the small entry of `key`. False with `errno` `EINVAL` (no bytes, or the cache
/// was made for no small entries), `E2BIG` (more than [`MOST_SMALL_BYTES`](crate::MOST_SMALL_BYTES)) or
/// `ENOMEM` (all pages are locked).
///
/// # Safety
/// `cache` is a cache, `from` is readable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_insert_small(
    cache: *const coldpress_cache,
    key: u64,
    from: *const c_void,
    bytes: usize,
) -> bool {
    // SAFETY: as the caller vouches.
    let cache = unsafe { &opened(cache, "insert_small").cache };
    if from.is_null() && bytes > 0 {
        misuse("insert_small", "the bytes are NULL");
    }
    let from: &[u8] = match bytes {
        0 => &[],
        // Nothing of what is too long is looked at.
        _ if bytes > isize::MAX as usize => {
            refuse::<c_void>(Error::SmallBytes { bytes });
            return false;
        }
        // SAFETY: as the caller vouches.
        _ => unsafe { std::slice::from_raw_parts(from.cast(), bytes) },
    };
    match cache.insert_small(key, from) {
        Ok(()) => true,
        Err(error) => {
            refuse::<c_void>(error);
            false
        }
    }
}

/// Copies the small entry of `key` to `into`, `room` bytes of it at most, and returns its length; 0 if
/// the cache does not have it.
///
/// # Safety
/// `cache` is a cache, `into` is writable for `room` bytes, which nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_get_small(
    cache: *const coldpress_cache,
    key: u64,
    into: *mut c_void,
    room: usize,
) -> usize {
    // SAFETY: as the caller vouches.
    let cache = unsafe { &opened(cache, "get_small").cache };
    // SAFETY: as the caller vouches.
    let got = unsafe { cache.get_small_raw(key, into.cast(), room) };
    got.unwrap_or(0)
}

/// Forgets the small entry of `key`. True if there was one.
///
/// # Safety
/// `cache` is a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_remove_small(
    cache: *const coldpress_cache,
    key: u64,
) -> bool {
    // SAFETY: as the caller vouches.
    unsafe { opened(cache, "remove_small") }
        .cache
        .remove_small(key)
}

/// Takes the page with the small entry of `key` as the kernel does when memory is short. For tests.
///
/// # Safety
/// `cache` is a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_take_small_as_the_kernel(
    cache: *const coldpress_cache,
    key: u64,
) -> bool {
    // SAFETY: as the caller vouches.
    unsafe { opened(cache, "take_small") }
        .cache
        .take_small_as_the_kernel(key)
}
