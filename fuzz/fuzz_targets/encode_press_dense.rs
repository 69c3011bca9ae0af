//! Round trip of press-dense, on every path: see [`coldpress_fuzz::encode`].
#![no_main]

use coldpress_codec::press_dense::PressDense;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    coldpress_fuzz::on_every_path(|simd| {
        let tables = coldpress_fuzz::dense_tables();
        let mut dense = PressDense::with_simd(tables, simd).expect("trained");
        dense.detect_same_filled = false;
        coldpress_fuzz::encode(&dense, data)
    });
});
