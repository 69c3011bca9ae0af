//! Everything that a client of the NBD server sends: see [`coldpress_fuzz::nbd::conversation`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coldpress_fuzz::nbd::conversation(data));
