//! Damaged stored bytes fail their page alone.

use crate::{Disk, IoError, Options, Recompressed, Volume};
use coldpress_engine::Entry;
use coldpress_storage::{read_at, write_at};

const PAGES: u64 = 64;

fn content(page: u64) -> Vec<u8> {
    let words = (0..512u64).map(|n| (page << 32) | (n / 16));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Turns one bit of what is stored for a page.
fn damage(disk: &Disk, page: u64, at: usize) {
    let shared = disk.volume().shared.clone();
    let Ok(Entry::Compressed(reference)) = shared.vmos.entry(disk.volume().vmo, page) else {
        panic!("page {page} is not compressed");
    };
    let frames = &shared.machine.storage;
    let mut byte = [0];
    // SAFETY: nobody else is at work, and the object stays.
    unsafe {
        assert!(read_at(frames, reference, at, &mut byte));
        write_at(frames, reference, at, &[byte[0] ^ 1]);
    }
}

fn is_damaged(volume: &Volume, page: u64) -> bool {
    let mut bytes = [0; 4096];
    match volume.read(page * 4096, &mut bytes) {
        Ok(()) => {
            assert_eq!(bytes, *content(page), "wrong bytes of page {page}");
            false
        }
        Err(error) => {
            assert_eq!(error, IoError::Damaged);
            true
        }
    }
}

fn settled() -> Disk {
    let disk = Disk::new(&Options::new(1 << 20)).unwrap();
    for page in 0..PAGES {
        disk.volume().write(page * 4096, &content(page)).unwrap();
    }
    disk.settle();
    disk
}

#[test]
fn a_damaged_page_fails_alone_and_can_be_written_again() {
    let disk = settled();
    let volume = disk.volume();
    // A byte of the payload, one of the checksum, and the last.
    for (page, at) in [(7, 20), (8, 0), (9, 12)] {
        damage(&disk, page, at);
    }
    for round in 0..2 {
        for page in 0..PAGES {
            assert_eq!(
                is_damaged(volume, page),
                (7..10).contains(&page),
                "page {page}, {round}"
            );
        }
    }
    let statistics = disk.statistics();
    assert_eq!((statistics.damaged_pages, statistics.failed_reads), (3, 6));
    // A part of it cannot be written: what would the rest be? The whole page can, and trimming forgets it.
    assert_eq!(volume.write(7 * 4096, b"a part"), Err(IoError::Damaged));
    volume.write(7 * 4096, &content(7)).unwrap();
    assert!(!is_damaged(volume, 7));
    volume.trim(8 * 4096, 2 * 4096).unwrap();
    let mut bytes = [1; 8192];
    volume.read(8 * 4096, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8192]);
    volume.trim(0, 1 << 20).unwrap();
    disk.settle();
    assert_eq!(disk.statistics().orig_data_size, 0);
    disk.check_invariants();
}

/// What a snapshot and the disk share is damaged for both; what the disk wrote since is not.
#[test]
fn a_damaged_page_of_a_snapshot_is_damaged_there_and_where_it_is_shared() {
    let disk = settled();
    let snapshot = disk.snapshot("s").unwrap();
    damage(&disk, 3, 15);
    damage(&disk, 4, 15);
    disk.volume().write(4 * 4096, &content(4)).unwrap();
    assert!(is_damaged(disk.volume(), 3) && is_damaged(&snapshot, 3));
    assert!(!is_damaged(disk.volume(), 4) && is_damaged(&snapshot, 4));
    assert!(!is_damaged(disk.volume(), 5) && !is_damaged(&snapshot, 5));
    disk.drop_snapshot("s").unwrap();
    disk.volume().trim(0, 1 << 20).unwrap();
    disk.settle();
    assert_eq!(disk.statistics().orig_data_size, 0);
}

/// Where the dictionary's memory goes bad, pages made with it fail, and none has wrong bytes.
#[test]
fn pages_of_a_damaged_dictionary_fail() {
    const MORE_PAGES: u64 = 2048;
    let content = |page: u64| {
        let line = |n: u64| {
            format!(
                "{n} of a page: {:x}\n",
                (page << 8 | n) * 0x9E37_79B9 % 65521
            )
        };
        let mut bytes: Vec<u8> = (0..250).flat_map(|n| line(n).into_bytes()).collect();
        bytes.truncate(4096);
        bytes
    };
    let disk = Disk::new(&Options::new(16 << 20)).unwrap();
    for page in 0..MORE_PAGES {
        disk.volume().write(page * 4096, &content(page)).unwrap();
    }
    disk.settle();
    let recompressed = disk.recompress();
    let Recompressed::Done { pages, .. } = recompressed else {
        panic!("{recompressed}");
    };
    assert!(pages > MORE_PAGES / 2, "{pages}");
    let dictionary = disk.shared().engine().codec().dictionary(0).unwrap();
    let (start, length) = (
        dictionary.content().as_ptr().cast_mut(),
        dictionary.content().len(),
    );
    for at in (length / 2..length).step_by(3) {
        // SAFETY: inside the content, in mapped memory of the disk, and nobody else is at work.
        unsafe {
            start
                .add(at)
                .write_volatile(start.add(at).read_volatile() ^ 1)
        };
    }
    let mut failed = 0;
    for page in 0..MORE_PAGES {
        let mut bytes = [0; 4096];
        match disk.volume().read(page * 4096, &mut bytes) {
            Ok(()) => assert!(bytes[..] == content(page)[..], "wrong bytes of page {page}"),
            Err(error) => {
                assert_eq!(error, IoError::Damaged);
                failed += 1;
            }
        }
    }
    assert!(failed > pages / 2, "{failed} of {pages}");
    assert_eq!(disk.recompress(), Recompressed::Damaged);
    disk.volume().write(0, &content(0)).unwrap();
    assert!(disk.volume().read(0, &mut [0; 4096]).is_ok());
}
