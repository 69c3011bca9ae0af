//! Promise: the engine's tables take less than 1 % of the memory that it manages. What a compressed
//! page takes of them: `vmo/metadata.rs`.

use crate::machine::*;
use coldpress_engine::SEGMENT_PAGES;

/// Bytes a page with 256 MiB resident, and with the colder half of it compressed.
fn bytes_a_page(random_bytes: usize) -> (f64, f64) {
    const SEGMENTS: u32 = 8;
    let s = system(SEGMENTS as usize, SEGMENT_PAGES as usize);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let pages = SEGMENTS * SEGMENT_PAGES;
    let mut page = content(Kind::Noise, 1);
    page[random_bytes..].fill(7);
    // The worst order of things: all pages are resident at one time, so each has a record.
    for at in 0..pages {
        if at == pages / 2 {
            s.cool();
        }
        page[..8].copy_from_slice(&u64::from(at).to_ne_bytes());
        s.write(&mut w, 1 + at / SEGMENT_PAGES, at % SEGMENT_PAGES, &page);
    }
    let all_resident = s.engine.metadata_bytes();
    while s.reclaim(&mut r, 384).taken > 0 {}
    let compressed = value(&s.engine.counters().compressed_pages);
    assert_eq!(compressed, u64::from(pages / 2));
    assert_eq!(s.engine.resident_pages(), pages / 2);
    let a_page = |bytes: usize| bytes as f64 / f64::from(pages);
    (a_page(all_resident), a_page(s.engine.metadata_bytes()))
}

#[test]
fn tables_take_less_than_a_hundredth() {
    // Three objects to a frame, and (the worst case of storage) one.
    for (random_bytes, what) in [(800, "small"), (2400, "large")] {
        let (resident, half) = bytes_a_page(random_bytes);
        println!(
            "metadata: {resident:.2} bytes a page with 256 MiB resident, {half:.2} with half of \
             it compressed to {what} objects ({:.3} % of the managed bytes)",
            half / 40.96,
        );
        assert!(half < 40.96);
    }
}
