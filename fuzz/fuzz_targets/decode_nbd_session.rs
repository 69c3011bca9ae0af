//! Whole sessions with the NBD server, short and many: see [`coldpress_fuzz::session`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coldpress_fuzz::session::session(data));
