//! What one thread sees of a volume.

use crate::common::{PAGE, disk, eager, noise, read, text};
use coldpress_codec::CodecKind;
use coldpress_disk::{CreateError, Disk, Extent, IoError, Options};
use coldpress_storage::StorageKind;

#[test]
fn a_fresh_disk_is_zeros_and_one_hole() {
    let disk = disk(1 << 30);
    assert_eq!(read(disk.volume(), (1 << 30) - 8192, 8192), vec![0; 8192]);
    let whole = disk.volume().extent(0, 1 << 30).unwrap();
    assert_eq!(whole, (1 << 30, Extent::Hole));
    assert_eq!(disk.statistics().orig_data_size, 0);
}

#[test]
fn sizes_and_limits_that_cannot_be_are_refused() {
    for size in [0, 4095, 5000, (16 << 40) + 4096] {
        assert_eq!(
            Disk::new(&Options::new(size)).err(),
            Some(CreateError::Size)
        );
    }
    let refused = Disk::new(&eager(1 << 20, Some((4 << 20) - 1)));
    assert_eq!(refused.err(), Some(CreateError::Limit));
    assert!(Disk::new(&Options::new(16 << 40)).is_ok());
}

#[test]
fn ranges_outside_are_refused_and_counted() {
    let disk = disk(8192);
    let (volume, mut buffer) = (disk.volume(), [0; 100]);
    for offset in [8093, 8192, u64::MAX - 50, u64::MAX] {
        assert_eq!(volume.read(offset, &mut buffer), Err(IoError::OutOfRange));
        assert_eq!(volume.write(offset, &buffer), Err(IoError::OutOfRange));
        assert_eq!(volume.trim(offset, 100), Err(IoError::OutOfRange));
        assert_eq!(volume.write_zeroes(offset, 100), Err(IoError::OutOfRange));
        assert_eq!(volume.extent(offset, 100), Err(IoError::OutOfRange));
    }
    assert_eq!(disk.statistics().invalid_io, 20);
    assert_eq!(volume.write(8092, &buffer), Ok(()));
}

#[test]
fn a_read_only_disk_is_not_written() {
    let mut options = eager(8192, None);
    options.read_only = true;
    let disk = Disk::new(&options).unwrap();
    let volume = disk.volume();
    assert_eq!(volume.write(0, &[1]), Err(IoError::ReadOnly));
    assert_eq!(volume.trim(0, 8192), Err(IoError::ReadOnly));
    assert_eq!(volume.write_zeroes(0, 1), Err(IoError::ReadOnly));
    assert_eq!(read(volume, 0, 8192), vec![0; 8192]);
}

/// Whatever the codec and the storage, and across the bounds of segments (32 MiB).
#[test]
fn every_codec_and_storage_gives_back_what_was_written() {
    let codecs = ["lz4", "lz4-rust:1", "zstd:1", "lzo", "wkdm", "press"];
    for (n, codec) in codecs.into_iter().enumerate() {
        let mut options = eager(128 << 20, None);
        options.codec = CodecKind::from_name(codec).unwrap();
        options.storage = StorageKind::ALL[n % 4];
        let disk = Disk::new(&options).unwrap();
        let volume = disk.volume();
        let (a, b) = (text(1, 300_000), noise(2, 50_000));
        volume.write((32 << 20) - 100_001, &a).unwrap();
        volume.write((96 << 20) - 7, &b).unwrap();
        disk.settle();
        let statistics = disk.statistics();
        assert!(statistics.compressed_pages >= 70, "{codec}: {statistics:?}");
        assert!(statistics.huge_pages >= 11, "{codec}: {statistics:?}");
        assert_eq!(statistics.pages_in_place, statistics.huge_pages);
        assert_eq!(read(volume, (32 << 20) - 100_001, a.len()), a, "{codec}");
        assert_eq!(read(volume, (96 << 20) - 7, b.len()), b, "{codec}");
        // Reading has changed nothing.
        assert_eq!(
            disk.statistics().compressed_pages,
            statistics.compressed_pages
        );
        // The rest of a page that is compressed stays when a part is written.
        volume.write((32 << 20) + 10, b"xyz").unwrap();
        let mut expected = a.clone();
        expected[100_011..100_014].copy_from_slice(b"xyz");
        assert_eq!(
            read(volume, (32 << 20) - 100_001, a.len()),
            expected,
            "{codec}"
        );
        disk.check_invariants();
    }
}

#[test]
fn zeros_and_repeated_words_take_no_frames() {
    let disk = disk(64 << 20);
    let volume = disk.volume();
    volume.write(0, &vec![0; 8 << 20]).unwrap();
    assert_eq!(disk.statistics().orig_data_size, 0);
    assert_eq!(
        volume.extent(0, 64 << 20).unwrap(),
        (64 << 20, Extent::Hole)
    );
    volume.write(1 << 20, &vec![0x5A; 8 << 20]).unwrap();
    disk.settle();
    let statistics = disk.statistics();
    assert_eq!(statistics.same_pages, 2048);
    assert_eq!(
        (statistics.pages_in_place, statistics.storage_bytes),
        (0, 0)
    );
    assert_eq!(read(volume, 5 << 20, 100_000), vec![0x5A; 100_000]);
    assert_eq!(volume.extent(0, 64 << 20).unwrap(), (1 << 20, Extent::Hole));
    // What was compressed to zeros, since its page was written in parts, is a hole, too.
    volume.write(32 << 20, b"something").unwrap();
    volume.write(32 << 20, &[0; 9]).unwrap();
    disk.settle();
    assert_eq!(volume.extent(32 << 20, 4096).unwrap(), (4096, Extent::Hole));
}

#[test]
fn extents_are_exact() {
    let disk = disk(64 << 20);
    let volume = disk.volume();
    volume.write(10 * 4096 + 5, &noise(1, 3 * PAGE)).unwrap();
    let at = |offset, length| volume.extent(offset, length).unwrap();
    assert_eq!(at(0, 64 << 20), (10 * 4096, Extent::Hole));
    assert_eq!(at(10 * 4096, 64 << 20 >> 1), (4 * 4096, Extent::Data));
    assert_eq!(at(11 * 4096 + 100, 50), (50, Extent::Data));
    assert_eq!(at(14 * 4096, 1 << 20), (1 << 20, Extent::Hole));
    disk.settle();
    assert_eq!(at(10 * 4096, 1 << 20), (4 * 4096, Extent::Data));
}

#[test]
fn trims_forget_whole_pages_and_zeroes_all() {
    let disk = disk(1 << 20);
    let volume = disk.volume();
    let before = noise(3, 1 << 20);
    volume.write(0, &before).unwrap();
    volume.trim(4096 + 1, 3 * 4096 - 2).unwrap();
    let mut expected = before;
    expected[2 * PAGE..3 * PAGE].fill(0);
    assert_eq!(read(volume, 0, 1 << 20), expected);
    assert_eq!(disk.statistics().notify_free, 1);
    for (from, len) in [(100, 50), (5 * PAGE - 10, 20), (7 * PAGE - 1, 2 * PAGE + 2)] {
        volume.write_zeroes(from as u64, len as u64).unwrap();
        expected[from..from + len].fill(0);
        assert_eq!(read(volume, 0, 1 << 20), expected, "{from} {len}");
    }
    assert_eq!(volume.extent(7 * 4096, 4096).unwrap().1, Extent::Hole);
    assert_eq!(disk.statistics().notify_free, 3);
}
