//! Content that tests write, and helpers.

use coldpress_disk::{Disk, Options};
use std::time::Duration;

pub const PAGE: usize = 4096;

/// A disk whose scanner takes what was not written for some milliseconds, and which lets little wait for it.
pub fn eager(size_bytes: u64, limit_bytes: Option<u64>) -> Options {
    let mut options = Options::new(size_bytes);
    options.limit_bytes = limit_bytes;
    options.cold_age = Duration::from_millis(3);
    options.backlog_bytes = 1 << 20;
    options
}

pub fn disk(size_bytes: u64) -> Disk {
    Disk::new(&eager(size_bytes, None)).unwrap()
}

/// Bytes that compress to less than a sixth, and are like no others with another seed.
pub fn text(seed: u64, len: usize) -> Vec<u8> {
    one_random_of(16, seed, len)
}

/// Bytes that compress to some third.
pub fn rough(seed: u64, len: usize) -> Vec<u8> {
    one_random_of(4, seed, len)
}

fn one_random_of(words: u64, seed: u64, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64).map(|n| match n % words {
        0 => mix(seed ^ (n << 32)),
        _ => seed,
    });
    bytes(words, len)
}

/// Bytes that do not compress.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    bytes(
        (0..len.div_ceil(8) as u64).map(|n| mix(seed.wrapping_mul(0x1_0001) + n)),
        len,
    )
}

fn bytes(words: impl Iterator<Item = u64>, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}

pub fn mix(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

pub fn read(volume: &coldpress_disk::Volume, offset: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xA5; len];
    volume.read(offset, &mut buffer).unwrap();
    buffer
}
