//! What is stored twice is what was written, and takes less.

use crate::common::{PAGE, eager, mix, read};
use coldpress_codec::CodecKind;
use coldpress_disk::{Disk, Options, Recompressed};

const MIB: usize = 1 << 20;

fn options(codec: &str, size_bytes: usize) -> Options {
    let mut options = eager(size_bytes as u64, None);
    options.codec = codec.parse::<CodecKind>().unwrap();
    options
}

/// Lines of text, of words that are the same on all pages: what a dictionary is for.
fn lines(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 100);
    let mut n = 0;
    while bytes.len() < len {
        n += 1;
        let random = mix(seed << 32 | n);
        let words = (0..4).map(|at| mix(random >> (8 * at) & 0x3ff));
        let words: Vec<String> = words.map(|word| format!("{word:x}")).collect();
        bytes.extend(format!("{n}: {}\n", words.join(" ")).into_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn filled(codec: &str, data: &[u8]) -> Disk {
    let disk = Disk::new(&options(codec, 32 * MIB)).unwrap();
    disk.volume().write(0, data).unwrap();
    disk.settle();
    disk
}

fn pages_recompressed(disk: &Disk) -> u64 {
    match disk.recompress() {
        Recompressed::Done { pages, .. } => pages,
        refused => panic!("{refused}"),
    }
}

#[test]
fn recompressed_pages_are_what_they_were() {
    for codec in ["press", "zstd:1"] {
        let data = lines(1, 8 * MIB);
        let disk = filled(codec, &data);
        let before = disk.statistics();
        let Recompressed::Done { pages, saved_bytes } = disk.recompress() else {
            panic!("{codec} recompresses");
        };
        let after = disk.statistics();
        assert!(
            pages > 1500 && saved_bytes > MIB as u64,
            "{codec}: {pages} {saved_bytes}"
        );
        assert_eq!(after.recompressed_pages, pages);
        assert_eq!(before.compr_data_size - after.compr_data_size, saved_bytes);
        // The dictionary counts, and is small beside what it saves.
        assert!((28 << 10..64 << 10).contains(&after.dictionary_bytes));
        assert!(after.table_bytes >= before.table_bytes + after.dictionary_bytes);
        assert!(after.mem_used_total < before.mem_used_total);
        assert!(read(disk.volume(), 0, data.len()) == data);
        assert_eq!(pages_recompressed(&disk), 0, "once is enough");
        disk.volume().write(100, b"another").unwrap();
        disk.settle();
        assert_eq!(read(disk.volume(), 98, 11)[2..9], *b"another");
        disk.check_invariants();
    }
}

/// Once a disk that was recompressed held an eighth more than it needed: objects that had become smaller left holes in all
/// frames, too few for the scanner to compact.
#[test]
fn what_recompression_frees_is_given_back() {
    let disk = filled("zstd:1", &lines(1, 8 * MIB));
    pages_recompressed(&disk);
    let after = disk.statistics();
    let payload = after.compr_data_size - after.pages_in_place * PAGE as u64;
    // Twelve bytes of header for each page, two of storage's, and rounding to eight.
    let objects = payload + 20 * after.compressed_pages;
    assert!(
        after.storage_bytes < objects + objects / 16,
        "{} in {}",
        payload,
        after.storage_bytes
    );
}

#[test]
fn where_there_is_nothing_to_gain_it_says_so() {
    let disk = filled("press", &lines(1, MIB));
    assert_eq!(disk.recompress(), Recompressed::TooLittle);
    let disk = filled("lz4", &lines(1, 8 * MIB));
    let refused = disk.recompress();
    assert!(matches!(refused, Recompressed::OfOtherCodec(_)));
    assert!(refused.to_string().contains("press or zstd"), "{refused}");
    assert_eq!(disk.statistics().dictionary_bytes, 0);
}

/// Pages of another kind are written; pages of the first dictionary stay, in the disk and in a snapshot.
#[test]
fn another_dictionary_is_made_and_the_one_before_is_kept() {
    let data = lines(1, 8 * MIB);
    let disk = filled("zstd:1", &data);
    pages_recompressed(&disk);
    let one = disk.statistics().dictionary_bytes;
    let snapshot = disk.snapshot("s").unwrap();
    let others: Vec<u8> = lines(2, 7 * MIB).iter().map(|byte| byte ^ 0x80).collect();
    for _ in 0..4 {
        disk.volume().write(0, &others).unwrap();
        disk.settle();
    }
    assert!(pages_recompressed(&disk) > 1000);
    assert!(disk.statistics().dictionary_bytes > one + (28 << 10));
    assert!(read(&snapshot, 0, data.len()) == data);
    assert!(read(disk.volume(), 0, others.len()) == others);
    assert!(read(disk.volume(), others.len() as u64, MIB) == data[others.len()..]);
    disk.drop_snapshot("s").unwrap();
    assert!(read(disk.volume(), 0, others.len()) == others);
    disk.check_invariants();
}

#[test]
fn there_are_so_many_dictionaries_and_no_more() {
    let disk = filled("zstd:1", &lines(0, 5 * MIB));
    pages_recompressed(&disk);
    let one = disk.statistics().dictionary_bytes;
    for round in 1..10 {
        for _ in 0..2 {
            disk.volume().write(0, &lines(round, 5 * MIB)).unwrap();
            disk.settle();
        }
        disk.recompress();
    }
    let all = disk.statistics().dictionary_bytes;
    assert!((one * 7..one * 10).contains(&all), "{one} {all}");
    assert!(read(disk.volume(), 0, 5 * MIB) == lines(9, 5 * MIB));
}

/// Pages are written, trimmed and read while all is recompressed.
#[test]
fn others_go_on_meanwhile() {
    let disk = filled("press", &lines(1, 8 * MIB));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (volume, is_over) = (disk.volume(), &is_over);
            scope.spawn(move || {
                let first = thread * 1024;
                let mut round = 0;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    round += 1;
                    let page = first + mix(round << 1 | thread) % 1024;
                    let data = lines(page, PAGE);
                    volume.write(page * 4096, &data).unwrap();
                    assert!(read(volume, page * 4096, PAGE) == data);
                }
            });
        }
        pages_recompressed(&disk);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let data = lines(1, 8 * MIB);
    for page in 0..2048u64 {
        let found = read(disk.volume(), page * 4096, PAGE);
        let before = &data[page as usize * PAGE..][..PAGE];
        assert!(found == before || found == lines(page, PAGE), "page {page}");
    }
    disk.check_invariants();
}

#[test]
fn it_needs_no_room_below_the_limit() {
    let data = lines(1, 8 * MIB);
    let disk = filled("press", &data);
    let held = disk.statistics().mem_used_total;
    disk.set_limit(Some(held.max(4 << 20))).unwrap();
    assert!(pages_recompressed(&disk) > 1000);
    assert!(disk.statistics().mem_used_max <= held.max(4 << 20) + (1 << 20));
    assert!(read(disk.volume(), 0, data.len()) == data);
}
