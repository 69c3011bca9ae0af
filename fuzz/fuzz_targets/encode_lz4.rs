//! Round trip of lz4: see [`coldpress_fuzz::encode`].
#![no_main]

use coldpress_codec::Lz4;

const CODEC: Lz4 = Lz4 {
    acceleration: 1,
    detect_same_filled: false,
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    coldpress_fuzz::encode(&CODEC, data);
});
