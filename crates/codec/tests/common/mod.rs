//! What the tests share: pages, codecs, and memory between fences.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test file uses what it needs"
)]

pub mod codecs;
pub mod fenced;
mod pages;
pub mod tables;

pub use pages::{KINDS, Kind, Random, page};

/// How many cases a property is tried on: one under Miri, which takes a thousand times as long.
pub const fn cases(usual: u32) -> u32 {
    if cfg!(miri) { 1 } else { usual }
}

/// proptest's settings for so many cases.
pub fn config(usual_cases: u32) -> proptest::test_runner::Config {
    let mut config = proptest::test_runner::Config::with_cases(cases(usual_cases));
    if cfg!(miri) {
        config.failure_persistence = None; // no files
        config.max_shrink_iters = 0;
    }
    config
}

/// A value of zeroes, made in place.
pub fn zeroed<T: coldpress_arena::Zeroable>() -> Box<T> {
    let layout = std::alloc::Layout::new::<T>();
    // SAFETY: fresh memory of T's layout (none, for a type without bytes), all zero, which is a
    // valid T.
    unsafe {
        let memory = match layout.size() {
            0 => std::ptr::dangling_mut(),
            _ => std::alloc::alloc_zeroed(layout),
        };
        assert!(!memory.is_null());
        Box::from_raw(memory.cast())
    }
}

/// A dictionary of zstd, trained from pages of all kinds.
#[cfg(feature = "zstd")]
pub fn dictionary_content() -> Vec<u8> {
    let pages: Vec<_> = (100..150)
        .flat_map(|seed| KINDS.map(|kind| page(kind, seed)))
        .collect();
    let sizes = vec![coldpress_codec::PAGE_SIZE; pages.len()];
    let mut content = vec![0; 16 << 10];
    // SAFETY: the lengths are those of the buffers.
    let length = unsafe {
        let (to, room) = (content.as_mut_ptr().cast(), content.len());
        let from = pages.as_ptr().cast();
        zstd_sys::ZDICT_trainFromBuffer(to, room, from, sizes.as_ptr(), sizes.len() as u32)
    };
    assert!(length <= content.len(), "libzstd trains");
    content.truncate(length);
    content
}
