//! Round trip of press, on every path: see [`coldpress_fuzz::encode`].
#![no_main]

use coldpress_codec::press::Press;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    coldpress_fuzz::on_every_path(|simd| {
        let mut press = Press::with_simd(simd);
        press.detect_same_filled = false;
        coldpress_fuzz::encode(&press, data)
    });
});
