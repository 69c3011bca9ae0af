//! Decoder of lz4-rust: see [`coldpress_fuzz::decode`].
#![no_main]

use coldpress_codec::Lz4Rust;

const CODEC: Lz4Rust = Lz4Rust {
    acceleration: 1,
    detect_same_filled: false,
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    coldpress_fuzz::decode(&CODEC, data);
});
