//! The compressed tier on pages of real programs: how many times as many entries the same memory keeps.
//! `cargo run --release -p coldpress-cache --example captured FILE.pages ...`.
//!
//! A file is what `coldpress capture --output FILE.pages PID` writes: pages of 4096 bytes and nothing
//! else. Each page is an entry. One cache has all its memory in pages; the other an eighth, and the
//! rest for compressed entries, under a hard budget of the same size. Both are filled with all entries, a
//! quarter as much memory as these take; then every entry that is there is compared with the file.

use coldpress_cache::{Backing, Cache, Options, PAGE_BYTES, Stats};
use std::time::Instant;

/// Entries are so many times the memory.
const TIMES: usize = 4;

/// The part of the memory that pages get beside the compressed entries.
const PAGES_PART: usize = 8;

struct Outcome {
    kept: usize,
    wrong: usize,
    stats: Stats,
    /// Of an insertion with all it brings about, and of a read, in microseconds.
    insert_us: f64,
    read_us: f64,
}

fn outcome(entries: &[u8], options: Options) -> Outcome {
    let cache = Cache::new(options).unwrap_or_else(|error| panic!("{error}"));
    let pages = entries.chunks_exact(PAGE_BYTES);
    let count = pages.len() as f64;
    let started = Instant::now();
    for (key, page) in pages.clone().enumerate() {
        cache.insert(key as u64, page).expect("nothing is locked");
    }
    let insert_us = started.elapsed().as_secs_f64() * 1e6 / count;
    // What is held now; reading brings compressed entries into pages, and others into the tier.
    let stats = cache.stats();
    let (mut kept, mut wrong) = (0, 0);
    let started = Instant::now();
    for (key, page) in pages.enumerate() {
        match cache.with(key as u64, |found| found[..] == *page) {
            Some(true) => kept += 1,
            Some(false) => wrong += 1,
            None => {}
        }
    }
    Outcome {
        kept,
        wrong,
        stats,
        insert_us,
        read_us: started.elapsed().as_secs_f64() * 1e6 / count,
    }
}

/// Whether no entry was wrong.
fn compare(file: &str) -> bool {
    let entries = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let pages = entries.len() / PAGE_BYTES;
    assert!(
        entries.len().is_multiple_of(PAGE_BYTES) && pages >= 1024,
        "{file}: not at least 1024 pages of {PAGE_BYTES} bytes"
    );
    let memory = pages / TIMES * PAGE_BYTES;
    let plain = outcome(&entries, Options::new(memory, Backing::DontNeed));
    let tier = outcome(
        &entries,
        Options {
            compressed_bytes: memory - memory / PAGES_PART,
            hard_bytes: memory,
            ..Options::new(memory / PAGES_PART, Backing::DontNeed)
        },
    );
    let held = |stats: &Stats| (stats.entries + stats.compressed_entries) as f64;
    println!(
        "{file}: {pages} entries, memory for {}: {} kept; with a tier {} ({} in pages, {} compressed, {} did not compress), \
         {:.2} times as many; found {} and {}, wrong {} and {}; insert {:.1} and {:.1} us, read {:.1} and {:.1} us",
        memory / PAGE_BYTES,
        plain.stats.entries,
        tier.stats.entries + tier.stats.compressed_entries,
        tier.stats.entries,
        tier.stats.compressed_entries,
        tier.stats.incompressible,
        held(&tier.stats) / held(&plain.stats),
        plain.kept,
        tier.kept,
        plain.wrong,
        tier.wrong,
        plain.insert_us,
        tier.insert_us,
        plain.read_us,
        tier.read_us,
    );
    assert!(tier.stats.used_bytes <= memory as u64, "{:?}", tier.stats);
    plain.wrong + tier.wrong == 0
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!(
            "captured: no file of pages was named; make one with `coldpress capture --output FILE.pages PID`"
        );
        std::process::exit(2);
    }
    let right = files.iter().filter(|file| compare(file)).count();
    if right < files.len() {
        println!("FAILED: wrong bytes");
        std::process::exit(1);
    }
}
