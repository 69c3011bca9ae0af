//! How much memory a cache takes, what goes first, and its figures, from C.

use super::{coldpress_cache, opened, refuse};
use crate::error::Error;
use std::ffi::{c_uint, c_void};
use std::time::Duration;

/// Figures, as [`Stats`](crate::Stats).
#[repr(C)]
#[derive(Default)]
#[allow(non_camel_case_types, missing_docs)]
pub struct coldpress_cache_stats {
    pub pages: u64,
    pub free_pages: u64,
    pub entries: u64,
    pub hits: u64,
    pub misses: u64,
    pub resets: u64,
    pub evicted: u64,
    pub reused: u64,
    pub displaced: u64,
    pub kept: u64,
    pub compressed_entries: u64,
    pub compressed_bytes: u64,
    pub resident_bytes: u64,
    pub lazyfree_bytes: u64,
    pub small_entries: u64,
    pub small_pages: u64,
    pub used_bytes: u64,
    pub hard_bytes: u64,
    pub soft_bytes: u64,
    pub shrunk_bytes: u64,
}

/// Says what the entry of `key` costs to make again; see [`Cache::set_cost`](crate::Cache::set_cost). False if there is none.
///
/// # Safety
/// `cache` is a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_set_cost(
    cache: *const coldpress_cache,
    key: u64,
    cost: u32,
) -> bool {
    // SAFETY: as the caller vouches.
    unsafe { opened(cache, "set_cost") }
        .cache
        .set_cost(key, cost)
}

/// Evicts entries of `bytes` bytes, gives their memory back, and says how much it was.
///
/// # Safety
/// `cache` is a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_shrink(cache: *const coldpress_cache, bytes: u64) -> u64 {
    // SAFETY: as the caller vouches.
    unsafe { opened(cache, "shrink") }.cache.shrink(bytes)
}

/// Looks whether memory is short, and if so shrinks the cache some way to its soft budget; see
/// [`Cache::tend`](crate::Cache::tend). The bytes given back.
///
/// # Safety
/// `cache` is a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_tend(cache: *const coldpress_cache) -> u64 {
    // SAFETY: as the caller vouches.
    unsafe { opened(cache, "tend") }.cache.tend()
}

/// Starts a thread that does so every so many milliseconds, until the cache is freed; with 0 ends it, and
/// waits for it. False with `errno` if there is no thread to be had.
///
/// # Safety
/// `cache` is a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_tend_every(
    cache: *const coldpress_cache,
    milliseconds: c_uint,
) -> bool {
    // SAFETY: as the caller vouches.
    let cache = unsafe { opened(cache, "tend_every") };
    let mut tender = cache.tender.lock().unwrap_or_else(|e| e.into_inner());
    *tender = None;
    if milliseconds == 0 {
        return true;
    }
    let interval = Duration::from_millis(milliseconds.into());
    match cache.cache.tend_every(interval) {
        Ok(started) => {
            *tender = Some(started);
            true
        }
        Err(source) => {
            refuse::<c_void>(Error::Memory {
                call: "pthread_create",
                bytes: 0,
                source,
            });
            false
        }
    }
}

/// Writes figures of now into `into`.
///
/// # Safety
/// `cache` is a cache, `into` points to figures.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_get_stats(
    cache: *const coldpress_cache,
    into: *mut coldpress_cache_stats,
) {
    // SAFETY: as the caller vouches.
    let stats = unsafe { opened(cache, "stats") }.cache.stats();
    let figures = coldpress_cache_stats {
        pages: stats.pages,
        free_pages: stats.free_pages,
        entries: stats.entries,
        hits: stats.hits,
        misses: stats.misses,
        resets: stats.resets,
        evicted: stats.evicted,
        reused: stats.reused,
        displaced: stats.displaced,
        kept: stats.kept,
        compressed_entries: stats.compressed_entries,
        compressed_bytes: stats.compressed_bytes,
        resident_bytes: stats.resident_bytes,
        lazyfree_bytes: stats.lazyfree_bytes,
        small_entries: stats.small_entries,
        small_pages: stats.small_pages,
        used_bytes: stats.used_bytes,
        hard_bytes: stats.hard_bytes,
        soft_bytes: stats.soft_bytes,
        shrunk_bytes: stats.shrunk_bytes,
    };
    // SAFETY: as the caller vouches.
    unsafe { into.write(figures) };
}
