//! The discardable cache as a library for C: `libcoldpress_cache_c.so` and `.a`.
//!
//! The functions are those of `ffi` of the crate `coldpress-cache`; the headers are in `include`:
//!
//! * `coldpress_cache.h`: all there is, under prefixed names;
//! * `lazyfree.h`: the names of seed 004's LazyFree;
//! * `upstream/`: the headers of LazyFree as it is today.
#![deny(missing_docs)]

pub use ::coldpress_cache::ffi::*;
