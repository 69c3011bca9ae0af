//! Decoder of zstd: see [`coldpress_fuzz::decode`].
#![no_main]

use coldpress_codec::Zstd;

const CODEC: Zstd = Zstd {
    level: 1,
    detect_same_filled: false,
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    coldpress_fuzz::decode(&CODEC, data);
});
