//! Promise: a compressed page takes at most 24 bytes of metadata, with its time and the number of
//! those who share it.

use crate::kernel::*;
use coldpress_engine::{HEADER_BYTES, SEGMENT_PAGES};
use coldpress_storage::StorageKind;

/// A system of which every page is compressed and shared by a snapshot.
fn all_compressed_and_shared(kind: StorageKind, pages: u64) -> &'static System {
    let s = system_with(kind, pages as usize + 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let vmo = s.create(pages);
    (0..pages).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    s.vmos.snapshot(&s.machine, vmo, 0..pages).unwrap();
    assert_eq!(u64::from(s.send_away(&mut r)), pages);
    s
}

#[test]
fn a_compressed_page_takes_at_most_24_bytes_of_metadata() {
    const PAGES: u64 = 2 * SEGMENT_PAGES as u64;
    if not_under_random_compression("it counts what is compressed") {
        return;
    }
    for kind in [
        StorageKind::Press,
        StorageKind::SizeClass,
        StorageKind::ThreeSlot,
    ] {
        let s = all_compressed_and_shared(kind, PAGES);
        let engine = s.vmos.engine();
        let usage = engine.storage_usage();
        assert_eq!(usage.objects as u64, PAGES);
        let metadata = engine.metadata();
        let a_page = |bytes: usize| bytes as f64 / PAGES as f64;
        let list = a_page(metadata.page_lists);
        let shares = a_page(metadata.counters);
        let storage = a_page(metadata.storage);
        let sum = list + HEADER_BYTES as f64 + storage + shares;
        println!(
            "metadata of a compressed page, {kind:?}, objects of {} bytes: entry {list:.2}, header with \
             time {HEADER_BYTES}, storage {storage:.2}, share count {shares:.2}: {sum:.2} bytes; \
             records of pages that were in place at the busiest time: {:.2} a page",
            usage.payload_bytes / usage.objects,
            a_page(metadata.records),
        );
        assert!(sum <= 24.0 || kind != StorageKind::default(), "{sum:.2}");
    }
}
