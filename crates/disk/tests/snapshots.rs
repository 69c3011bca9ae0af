//! Snapshots are what the disk was.

use crate::common::{PAGE, disk, noise, read, text};
use coldpress_disk::{IoError, SnapshotError};

#[test]
fn a_snapshot_stays_what_it_is_while_the_disk_is_written() {
    let disk = disk(64 << 20);
    let volume = disk.volume();
    volume.write(0, &text(1, 8 << 20)).unwrap();
    disk.settle();
    volume.write(8 << 20, &text(2, 1 << 20)).unwrap();
    let before = read(volume, 0, 10 << 20);
    let snapshot = disk.snapshot("s").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20u64 {
                volume
                    .write(round * 500_001, &noise(round, 300_000))
                    .unwrap();
                volume.trim(round * 400_000, 100_000).unwrap();
                volume.write_zeroes(round * 300_000 + 5, 50_000).unwrap();
                disk.mark_idle();
            }
        });
        for _ in 0..5 {
            assert!(read(&snapshot, 0, 10 << 20) == before);
        }
    });
    assert!(read(&snapshot, 0, 10 << 20) == before);
    assert_eq!(snapshot.write(0, &[1]), Err(IoError::ReadOnly));
    let of_disk = read(volume, 0, 10 << 20);
    disk.drop_snapshot("s").unwrap();
    assert!(read(volume, 0, 10 << 20) == of_disk);
    assert_eq!(snapshot.read(0, &mut [0]), Err(IoError::Gone));
    disk.check_invariants();
}

#[test]
fn a_snapshot_costs_what_changes() {
    let disk = disk(64 << 20);
    let volume = disk.volume();
    volume.write(0, &text(1, 32 << 20)).unwrap();
    disk.settle();
    disk.compact();
    // Frames that hold something, and tables: what is idle comes and goes.
    let held = || {
        let s = disk.statistics();
        (s.pages_in_place * 4096 + s.storage_bytes + s.table_bytes) as i64
    };
    let before = held();
    for n in 0..10 {
        disk.snapshot(&format!("{n}")).unwrap();
    }
    let tables = held() - before;
    assert!(tables < before / 50, "ten snapshots: {tables} of {before}");
    for n in 0..100u64 {
        volume.write(n * 300_000, &noise(n, PAGE)).unwrap();
    }
    disk.settle();
    let grown = held() - before;
    assert!(grown < 400 * 4096, "a hundred writes: {grown}");
    assert_eq!(disk.statistics().orig_data_size >> 12, 8192 + 199);
}

#[test]
fn names_are_given_once() {
    let disk = disk(1 << 20);
    disk.snapshot("a").unwrap();
    assert_eq!(
        disk.snapshot("a").err(),
        Some(SnapshotError::Exists("a".into()))
    );
    assert_eq!(
        disk.drop_snapshot("b"),
        Err(SnapshotError::Unknown("b".into()))
    );
    disk.snapshot("b").unwrap();
    assert_eq!(disk.snapshots(), ["a", "b"]);
    assert!(disk.find_snapshot("a").is_some());
    disk.drop_snapshot("a").unwrap();
    assert!(disk.find_snapshot("a").is_none());
    disk.snapshot("a").unwrap();
}
