//! Round trip of lzo: see [`coldpress_fuzz::encode`].
#![no_main]

use coldpress_codec::Lzo;

const CODEC: Lzo = Lzo {
    detect_same_filled: false,
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    coldpress_fuzz::encode(&CODEC, data);
});
