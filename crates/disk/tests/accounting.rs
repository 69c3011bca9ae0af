//! What is held is counted, and what is let go goes back.

use crate::common::{disk, eager, noise, read, rough, text};
use coldpress_disk::Disk;
use std::time::{Duration, Instant};

/// Waits, 20 s at most, until it is so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(20), "never {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_scanner_compresses_what_is_cold_and_gives_frames_back() {
    let disk = disk(64 << 20);
    disk.volume().write(0, &text(1, 16 << 20)).unwrap();
    wait_until("compressed", || disk.statistics().pages_in_place == 0);
    wait_until("given back", || disk.statistics().mem_used_total < 6 << 20);
    let statistics = disk.statistics();
    assert_eq!(statistics.orig_data_size, 16 << 20);
    assert_eq!(statistics.compressed_pages, 4096);
    assert!(statistics.mem_used_total >= statistics.storage_bytes + statistics.table_bytes);
    assert!(statistics.compr_data_size <= statistics.storage_bytes);
    assert_eq!(read(disk.volume(), 0, 16 << 20), text(1, 16 << 20));
}

/// With pages in place, compressed ones, same-filled ones, shared ones and ones that were overwritten.
#[test]
fn after_everything_is_trimmed_no_frame_is_held() {
    let disk = disk(64 << 20);
    let volume = disk.volume();
    for round in 0..3 {
        volume.write(5000, &text(round, 4 << 20)).unwrap();
        volume.write(8 << 20, &noise(round, 4 << 20)).unwrap();
        volume.write(16 << 20, &vec![round as u8; 1 << 20]).unwrap();
        disk.settle();
        disk.snapshot(&format!("{round}")).unwrap();
        volume.write(1 << 20, &text(round + 9, 1 << 20)).unwrap();
        volume.write(1_234_567, &noise(round, 5555)).unwrap();
    }
    for name in disk.snapshots() {
        disk.drop_snapshot(&name).unwrap();
    }
    volume.trim(0, 64 << 20).unwrap();
    disk.settle();
    let statistics = disk.statistics();
    assert_eq!(statistics.orig_data_size, 0);
    assert_eq!(
        (statistics.pages_in_place, statistics.compressed_pages),
        (0, 0)
    );
    assert_eq!((statistics.same_pages, statistics.storage_bytes), (0, 0));
    disk.compact();
    let statistics = disk.statistics();
    assert_eq!(
        statistics.mem_used_total.div_ceil(4096),
        statistics.table_bytes.div_ceil(4096)
    );
    disk.check_invariants();
    // Nothing that is kept grows with each round.
    let tables = statistics.table_bytes;
    for round in 0..3 {
        volume.write(0, &text(round, 4 << 20)).unwrap();
        volume.trim(0, 64 << 20).unwrap();
    }
    assert!(
        disk.statistics().table_bytes <= tables + 4096,
        "tables leak"
    );
}

#[test]
fn what_does_not_compress_takes_one_percent_more_at_most() {
    let disk = disk(96 << 20);
    let data = noise(1, 32 << 20);
    disk.volume().write(0, &data).unwrap();
    disk.settle();
    disk.compact();
    let statistics = disk.statistics();
    assert_eq!(statistics.huge_pages, 8192);
    let held = statistics.mem_used_total;
    let most = (32 << 20) + (32 << 20) / 100;
    assert!(held <= most, "{held} of {most}: {statistics:?}");
}

#[test]
fn reset_forgets_everything() {
    let disk = disk(32 << 20);
    disk.volume().write(0, &text(1, 8 << 20)).unwrap();
    disk.snapshot("s").unwrap();
    disk.volume().write(4096, &noise(1, 1 << 20)).unwrap();
    disk.reset();
    assert!(disk.snapshots().is_empty());
    let statistics = disk.statistics();
    assert_eq!(
        (statistics.orig_data_size, statistics.written_bytes),
        (0, 0)
    );
    assert_eq!(read(disk.volume(), 0, 8 << 20), vec![0; 8 << 20]);
}

/// Frames that are free in storage here and there are brought together, by the scanner alone.
#[test]
fn storage_is_compacted_after_scattered_trims() {
    let disk = disk(64 << 20);
    let volume = disk.volume();
    let data = rough(1, 32 << 20);
    volume.write(0, &data).unwrap();
    disk.settle();
    let full = disk.statistics().storage_bytes;
    for page in (0..8192u64).filter(|page| page % 8 != 0) {
        volume.trim(page * 4096, 4096).unwrap();
    }
    wait_until("compacted", || disk.statistics().storage_bytes < full / 4);
    for page in (0..8192u64).step_by(8) {
        let at = page as usize * 4096;
        assert_eq!(read(volume, page * 4096, 4096), &data[at..at + 4096]);
    }
    disk.check_invariants();
}

#[test]
fn a_disk_can_go_while_a_volume_stays() {
    let disk = Disk::new(&eager(8 << 20, None)).unwrap();
    let volume = disk.volume().clone();
    volume.write(0, &text(1, 1 << 20)).unwrap();
    drop(disk);
    assert_eq!(read(&volume, 0, 1 << 20), text(1, 1 << 20));
    volume.write(1 << 20, b"still").unwrap();
}
