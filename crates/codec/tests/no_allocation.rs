//! Promise: no codec calls an allocator (I1), neither Rust's nor C's.
//!
//! This binary defines `malloc`, `calloc` and `realloc` itself, in front of the C library's.
//! Calls of liblz4 and libzstd would arrive there, and so do those of Rust's allocator, which uses
//! the same functions. Needs glibc, for the names behind which its allocator can still be reached.
#![cfg(all(target_env = "gnu", not(miri)))]

mod common;

use std::cell::Cell;
use std::ffi::c_void;

use coldpress_codec::{Compressed, PAGE_SIZE, checksum, same_filled};
use common::codecs::codecs;
use common::{KINDS, page};

thread_local! {
    /// Calls by this thread. Needs no initialisation and no destructor, hence no allocator.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, bytes: usize) -> *mut c_void;
}

fn count() {
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: the signature and behaviour are those of the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    count();
    // SAFETY: the caller's contract is handed on.
    unsafe { __libc_malloc(bytes) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(items: usize, bytes: usize) -> *mut c_void {
    count();
    // SAFETY: the caller's contract is handed on.
    unsafe { __libc_calloc(items, bytes) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(memory: *mut c_void, bytes: usize) -> *mut c_void {
    count();
    // SAFETY: the caller's contract is handed on.
    unsafe { __libc_realloc(memory, bytes) }
}

#[test]
fn the_counter_counts() {
    let before = CALLS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(CALLS.get(), before + 1, "Rust's calls count");
    #[cfg(feature = "liblz4")]
    {
        let before = CALLS.get();
        // SAFETY: the stream is freed at once, and nothing else is done with it.
        unsafe { lz4_sys::LZ4_freeStream(lz4_sys::LZ4_createStream()) };
        assert_eq!(CALLS.get(), before + 1, "liblz4's calls count");
    }
    #[cfg(feature = "zstd")]
    {
        let before = CALLS.get();
        // SAFETY: the contexts are freed at once, and nothing else is done with them.
        unsafe {
            zstd_sys::ZSTD_freeCCtx(zstd_sys::ZSTD_createCCtx());
            zstd_sys::ZSTD_freeDCtx(zstd_sys::ZSTD_createDCtx());
        }
        assert_eq!(CALLS.get(), before + 2, "libzstd's calls count");
    }
}

#[test]
fn compressing_and_decompressing_allocate_nothing() {
    let pages: Vec<_> = (0..20)
        .flat_map(|seed| KINDS.map(|kind| page(kind, seed)))
        .collect();
    let mut out = [0; PAGE_SIZE];
    let mut restored = [0; PAGE_SIZE];
    for subject in codecs() {
        let mut worker = subject.worker();
        let (mut stored, mut damaged) = (0, 0);
        // From the first page on: contexts are made without an allocator, too.
        let before = CALLS.get();
        for page in &pages {
            for limit in [0, 100, 2867, PAGE_SIZE] {
                match worker.compress(page, &mut out[..limit]) {
                    Compressed::Stored(len) => {
                        worker.decompress(&out[..len], &mut restored).unwrap();
                        assert!(checksum(&restored) == checksum(page));
                        stored += 1;
                        out[len / 2] ^= 0x10;
                        let outcome = worker.decompress(&out[..len], &mut restored);
                        damaged += usize::from(outcome.is_err());
                        let outcome = worker.decompress(&out[..len - 1], &mut restored);
                        damaged += usize::from(outcome.is_err());
                    }
                    Compressed::SameFilled(word) => same_filled::fill(&mut restored, word),
                    Compressed::Incompressible => {}
                }
            }
        }
        assert_eq!(CALLS.get(), before, "{}", subject.name);
        assert!(stored > 100 && damaged > 0, "{stored} {damaged}");
    }
}
