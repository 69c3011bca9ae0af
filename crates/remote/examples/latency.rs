//! How long pages take from a store, and how fast segments go there, beside a local file:
//! `cargo run --release -p coldpress-remote --features redis,s3 --example latency -- URL…`
//!
//! A disk writes pages that do not compress to its tier, and reads them in random order. The lines are those of
//! `docs/measurements.md`.

use coldpress_codec::CodecKind;
use coldpress_disk::{Backing, SEGMENT_BYTES, TierDevice, TierFile, TierStore, segments_for};
use coldpress_remote::{Location, open};
use std::time::{Duration, Instant};

const SIZE: u64 = 256 << 20;
const PAGE: usize = 4096;
const PAGES: u64 = 32 << 10;
const READS: usize = 10_000;

fn main() -> Result<(), String> {
    println!("| tier | get p50 | p99 | put, MiB/s |\n|---|---|---|---|");
    let path = std::env::temp_dir().join(format!("coldpress-latency-{}", std::process::id()));
    let file = TierFile::create(&path, SIZE).map_err(|error| error.to_string())?;
    measure("file", file.into())?;
    for text in std::env::args().skip(1) {
        let location = Location::parse(&text)?;
        let segments = segments_for(SIZE);
        let device = open(&location, (segments, SEGMENT_BYTES), None);
        let device = device.map_err(|error| error.to_string())?;
        measure(
            &location.to_string(),
            TierDevice::new(Box::new(device), segments, 0),
        )?;
    }
    Ok(())
}

/// A generator of pages and places (xorshift).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn measure(name: &str, device: TierDevice) -> Result<(), String> {
    let store = TierStore::new(device, SIZE, CodecKind::best(), None);
    let store = store.map_err(|error| error.to_string())?;
    let failed = |error| format!("{name}: {error}");
    let mut chance = Chance(7);
    let mut pages = vec![0; PAGE * 64];
    for word in pages.chunks_mut(8) {
        word.copy_from_slice(&chance.next().to_ne_bytes());
    }
    let since = Instant::now();
    for number in 0..PAGES {
        let page = &pages[number as usize % 64 * PAGE..][..PAGE];
        store.write(number * PAGE as u64, page).map_err(failed)?;
    }
    let written = since.elapsed();
    let mut page = vec![0; PAGE];
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..READS {
        // None of the last segments, which may be in memory.
        let number = chance.next() % (PAGES - 256);
        let since = Instant::now();
        store
            .read(number * PAGE as u64, &mut page)
            .map_err(failed)?;
        times.push(since.elapsed());
        if page[..] != pages[number as usize % 64 * PAGE..][..PAGE] {
            return Err(format!("{name}: page {number} has wrong bytes"));
        }
    }
    store.end();
    times.sort_unstable();
    let of = |share: f64| times[(share * times.len() as f64) as usize].as_secs_f64() * 1e6;
    let speed = ((PAGES * PAGE as u64) >> 20) as f64 / written.as_secs_f64();
    println!(
        "| {name} | {:.0} µs | {:.0} µs | {speed:.0} |",
        of(0.5),
        of(0.99)
    );
    Ok(())
}
