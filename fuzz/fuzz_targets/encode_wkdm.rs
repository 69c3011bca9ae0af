//! Round trip of wkdm: see [`coldpress_fuzz::encode`].
#![no_main]

use coldpress_codec::Wkdm;

const CODEC: Wkdm = Wkdm {
    detect_same_filled: false,
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    coldpress_fuzz::encode(&CODEC, data);
});
