//! Requests to the NBD server: see [`coldpress_fuzz::nbd::requests`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coldpress_fuzz::nbd::requests(data));
