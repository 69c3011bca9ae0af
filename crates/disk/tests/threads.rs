//! Many threads, a tight limit, every byte verified.

use crate::common::{PAGE, eager, mix, noise, read, text};
use coldpress_disk::{Disk, IoError, Volume};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The content of a page of one thread, by how often it was written.
fn page(n: u64, times: u64) -> Vec<u8> {
    match mix(n ^ times << 40) % 8 {
        0 => noise(n << 20 | times, PAGE),
        1 => vec![times as u8; PAGE],
        2 => vec![0; PAGE],
        _ => text(n << 20 | times, PAGE),
    }
}

/// Writes and reads pages that nobody else writes, whole ones and in two parts.
fn churn(volume: &Volume, pages: std::ops::Range<u64>, seed: u64, rounds: u64) {
    let first = pages.start;
    let mut times = vec![0; (pages.end - first) as usize];
    let mut random = seed;
    let expected = |n: u64, times: u64| match times {
        0 => vec![0; PAGE],
        _ => page(n, times),
    };
    for round in 1..=rounds {
        random = mix(random);
        let n = first + random % (pages.end - first);
        let is = &mut times[(n - first) as usize];
        match random >> 32 & 7 {
            0 => {
                volume.trim(n * 4096, 4096).unwrap();
                *is = 0;
            }
            1 | 2 => {
                let (content, cut) = (page(n, round), 1 + (random >> 40) as usize % (PAGE - 1));
                volume
                    .write(n * 4096 + cut as u64, &content[cut..])
                    .unwrap();
                volume.write(n * 4096, &content[..cut]).unwrap();
                *is = round;
            }
            3 => {
                volume.write(n * 4096, &page(n, round)).unwrap();
                *is = round;
            }
            _ => assert_eq!(read(volume, n * 4096, PAGE), expected(n, *is), "page {n}"),
        }
    }
    for (n, &is) in (first..).zip(&times) {
        assert_eq!(
            read(volume, n * 4096, PAGE),
            expected(n, is),
            "page {n} at the end"
        );
    }
}

#[test]
fn every_thread_reads_what_it_wrote() {
    let mut options = eager(64 << 20, Some(12 << 20));
    options.cold_age = std::time::Duration::from_millis(1);
    let disk = Disk::new(&options).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6u64)
            .map(|n| {
                let volume = disk.volume().clone();
                // Neighbours in one leaf belong to different threads at the bounds.
                scope.spawn(move || churn(&volume, n * 1000..(n + 1) * 1000, n, 12_000))
            })
            .collect();
        // One that compacts, marks and makes snapshots meanwhile.
        scope.spawn(|| {
            let mut round = 0;
            while !done.load(Relaxed) {
                round += 1;
                let name = format!("{round}");
                let snapshot = disk.snapshot(&name).unwrap();
                let seen = read(&snapshot, 0, 1 << 20);
                disk.compact();
                disk.mark_idle();
                assert!(read(&snapshot, 0, 1 << 20) == seen, "a snapshot changes");
                disk.drop_snapshot(&name).unwrap();
            }
            assert!(round > 2);
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Relaxed);
    });
    let statistics = disk.statistics();
    assert!(statistics.mem_used_max <= 12 << 20, "{statistics:?}");
    assert_eq!((statistics.failed_reads, statistics.damaged_pages), (0, 0));
    disk.volume().trim(0, 64 << 20).unwrap();
    disk.settle();
    assert_eq!(disk.statistics().orig_data_size, 0);
    disk.check_invariants();
}

/// Two threads write the two halves of each page: neither undoes the other.
#[test]
fn writers_of_parts_of_a_page_do_not_undo_each_other() {
    let disk = Disk::new(&eager(4 << 20, None)).unwrap();
    let volume = disk.volume();
    std::thread::scope(|scope| {
        for half in 0..2u64 {
            scope.spawn(move || {
                for round in 0..8u64 {
                    for n in 0..512u64 {
                        let at = n * 4096 + half * 2048;
                        let content = text(half << 32 | round << 16 | n, 2048);
                        volume.write(at, &content).unwrap();
                        assert_eq!(read(volume, at, 2048), content);
                    }
                }
            });
        }
        scope.spawn(|| (0..200).for_each(|_| disk.mark_idle()));
    });
    for n in 0..512u64 {
        let halves = [text(7 << 16 | n, 2048), text(1 << 32 | 7 << 16 | n, 2048)].concat();
        assert_eq!(read(volume, n * 4096, PAGE), halves);
    }
}

/// Threads run into the limit together; what each was told is written is.
#[test]
fn no_space_loses_nothing_among_threads() {
    let disk = Disk::new(&eager(256 << 20, Some(8 << 20))).unwrap();
    let volume = disk.volume();
    let written: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let fill = |thread: u64| {
            move || {
                let mut written = Vec::new();
                for n in (0..4000u64).map(|n| n * 5 + thread) {
                    let content = if n % 3 == 0 {
                        noise(n, PAGE)
                    } else {
                        text(n, PAGE)
                    };
                    match volume.write(n * 4096, &content) {
                        Ok(()) => written.push(n),
                        Err(error) => assert_eq!(error, IoError::NoSpace),
                    }
                }
                written
            }
        };
        let threads: Vec<_> = (0..5).map(|thread| scope.spawn(fill(thread))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(disk.statistics().mem_used_max <= 8 << 20);
    let written: Vec<u64> = written.concat();
    assert!(
        written.len() > 2000 && written.len() < 20_000,
        "{}",
        written.len()
    );
    for n in written {
        let content = if n % 3 == 0 {
            noise(n, PAGE)
        } else {
            text(n, PAGE)
        };
        assert_eq!(read(volume, n * 4096, PAGE), content);
    }
    disk.check_invariants();
}
