//! The memory limit is hard, and reaching it loses nothing.

use crate::common::{PAGE, eager, noise, read, text};
use coldpress_disk::{Disk, IoError};

const LIMIT: u64 = 8 << 20;

fn limited() -> Disk {
    Disk::new(&eager(256 << 20, Some(LIMIT))).unwrap()
}

/// Writes pages until one is refused; how many were written.
fn fill(disk: &Disk, from: u64, page: impl Fn(u64) -> Vec<u8>) -> u64 {
    for n in from..65536 {
        match disk.volume().write(n * 4096, &page(n)) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, IoError::NoSpace);
                return n;
            }
        }
    }
    panic!("the limit was never reached");
}

#[test]
fn what_does_not_compress_ends_at_the_limit_and_all_of_it_stays() {
    let disk = limited();
    let page = |n| noise(n, PAGE);
    let written = fill(&disk, 0, page);
    // Some 160 frames are kept for storage, and tables take a percent.
    assert!(written * 4096 > LIMIT * 85 / 100, "{written}");
    let statistics = disk.statistics();
    assert!(statistics.mem_used_max <= LIMIT, "{statistics:?}");
    assert_eq!(statistics.failed_writes, 1);
    for n in 0..written {
        assert_eq!(read(disk.volume(), n * 4096, PAGE), page(n));
    }
    assert_eq!(read(disk.volume(), written * 4096, PAGE), vec![0; PAGE]);
    // What is there can be overwritten in place, and what is trimmed can be written again.
    disk.volume().write(4096, &noise(999, PAGE)).unwrap();
    disk.volume().write(4097, b"a part").unwrap();
    disk.volume().trim(0, 4096 * 100).unwrap();
    for n in 0..90 {
        disk.volume().write(n * 4096, &page(n)).unwrap();
    }
    disk.check_invariants();
}

#[test]
fn what_compresses_fills_the_limit_several_times() {
    let disk = limited();
    let page = |n| text(n, PAGE);
    let written = fill(&disk, 0, page);
    assert!(written * 4096 > 3 * LIMIT, "{written}");
    assert!(disk.statistics().mem_used_max <= LIMIT);
    for n in 0..written {
        assert_eq!(read(disk.volume(), n * 4096, PAGE), page(n));
    }
    // Reading has needed nothing, and parts of what is compressed can be written as long as there is room; if there is
    // none the page stays as it was.
    let mut refused = 0;
    for n in 0..written {
        let mut expected = page(n);
        match disk.volume().write(n * 4096 + 8, b"a part") {
            Ok(()) => expected[8..14].copy_from_slice(b"a part"),
            Err(error) => {
                assert_eq!(error, IoError::NoSpace);
                refused += 1;
            }
        }
        assert_eq!(read(disk.volume(), n * 4096, PAGE), expected);
    }
    assert!(refused < written / 10, "{refused} of {written}");
    assert!(disk.statistics().mem_used_max <= LIMIT);
    disk.check_invariants();
}

/// An overwrite that is refused leaves the old content, compressed or not.
#[test]
fn a_refused_overwrite_changes_nothing() {
    let disk = limited();
    disk.volume().write(0, &text(1, 1 << 20)).unwrap();
    disk.settle();
    fill(&disk, 1000, |n| noise(n, PAGE));
    let mut refused = 0;
    for n in 0..256u64 {
        let old = read(disk.volume(), n * 4096, PAGE);
        match disk.volume().write(n * 4096, &noise(n, PAGE)) {
            Ok(()) => assert_eq!(read(disk.volume(), n * 4096, PAGE), noise(n, PAGE)),
            Err(_) => {
                refused += 1;
                assert_eq!(read(disk.volume(), n * 4096, PAGE), old);
            }
        }
    }
    assert!(refused > 0);
    disk.check_invariants();
}

#[test]
fn a_limit_that_is_lowered_is_reached_by_compressing_and_can_be_lifted() {
    let disk = Disk::new(&{
        let mut options = eager(256 << 20, None);
        options.cold_age = std::time::Duration::from_secs(3600);
        options.backlog_bytes = 1 << 30;
        options
    })
    .unwrap();
    let data = text(1, 24 << 20);
    disk.volume().write(0, &data).unwrap();
    assert_eq!(disk.statistics().compressed_pages, 0, "all is young");
    disk.set_limit(Some(LIMIT)).unwrap();
    // The next write makes room for itself.
    let written = disk.volume().write(32 << 20, &noise(1, PAGE));
    assert_eq!(written, Ok(()), "{:?}", disk.statistics());
    assert!(disk.statistics().compressed_pages > 3000);
    assert!(disk.set_limit(Some(1 << 20)).is_err());
    assert_eq!(read(disk.volume(), 0, 24 << 20), data);
    fill(&disk, 10_000, |n| noise(n, PAGE));
    disk.set_limit(None).unwrap();
    disk.volume().write(48 << 20, &noise(2, 4 << 20)).unwrap();
    assert_eq!(read(disk.volume(), 48 << 20, 4 << 20), noise(2, 4 << 20));
}
