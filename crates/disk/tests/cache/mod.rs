//! Promises of the write-back cache.

mod faults;
mod faulty;
mod model;
mod tier;

use crate::common::eager;
use coldpress_disk::{Backing, BackingFile, Cache, CacheOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A file that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "coldpress-cache-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed)
        );
        Self(std::env::temp_dir().join(name))
    }

    fn create(&self, size_bytes: u64) -> BackingFile {
        BackingFile::create(&self.0, size_bytes).unwrap()
    }

    fn part(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let file = std::fs::File::open(&self.0).unwrap();
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    }

    fn content(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn cache(backing: impl Backing + 'static, limit_bytes: u64) -> Cache {
    let mut options = CacheOptions::new(limit_bytes);
    options.pool = eager(0, Some(limit_bytes));
    Cache::new(Box::new(backing), options).unwrap()
}

fn read(cache: &Cache, offset: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xA5; len];
    cache.read(offset, &mut buffer).unwrap();
    buffer
}
