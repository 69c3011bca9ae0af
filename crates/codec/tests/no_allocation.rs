//! Promise: no codec calls an allocator (I1), neither Rust's nor C's.
//!
//! This binary defines `malloc`, `calloc` and `realloc` itself, in front of the C library's.
//! liblz4's calls would arrive there, and so do those of Rust's allocator, which uses the same
//! functions. Needs glibc, for the names behind which its allocator can still be reached.
#![cfg(target_env = "gnu")]

mod common;

use std::cell::Cell;
use std::ffi::c_void;

use coldpress_codec::{Compressed, Lz4, Lz4State, PAGE_SIZE, PageCodec, checksum, same_filled};
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
fn compressing_and_decompressing_allocate_nothing() {
    let mut state = Box::new(Lz4State::new());
    let before = CALLS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(CALLS.get(), before + 1, "Rust's calls count");
    // SAFETY: the stream is freed at once, and nothing else is done with it.
    unsafe { lz4_sys::LZ4_freeStream(lz4_sys::LZ4_createStream()) };
    assert_eq!(CALLS.get(), before + 2, "liblz4's calls count");

    let pages: Vec<_> = (0..50)
        .flat_map(|seed| KINDS.map(|kind| page(kind, seed)))
        .collect();
    let mut out = [0; PAGE_SIZE];
    let mut restored = [0; PAGE_SIZE];
    let (mut stored, mut damaged) = (0, 0);
    let before = CALLS.get();
    for page in &pages {
        for limit in [0, 100, 2867, PAGE_SIZE] {
            let codec = Lz4::default();
            match codec.compress(&mut state, page, &mut out[..limit]) {
                Compressed::Stored(len) => {
                    codec
                        .decompress(&mut (), &out[..len], &mut restored)
                        .unwrap();
                    assert!(checksum(&restored) == checksum(page));
                    stored += 1;
                    out[len / 2] ^= 0x10;
                    damaged += usize::from(
                        codec
                            .decompress(&mut (), &out[..len], &mut restored)
                            .is_err(),
                    );
                }
                Compressed::SameFilled(word) => same_filled::fill(&mut restored, word),
                Compressed::Incompressible => {}
            }
        }
    }
    assert_eq!(CALLS.get(), before);
    assert!(stored > 100 && damaged > 0, "{stored} {damaged}");
}
