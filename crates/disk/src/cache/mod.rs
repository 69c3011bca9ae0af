//! A write-back cache in compressed memory, before a store that outlives it: what zswap is before a swap device.
//!
//! Pages that are read come into the pool, and those that are written stay there until they are the least recently used
//! ones and the pool is full. They go back *decompressed, to their place*, so the store can be used without the cache
//! at any time after a flush.
//!
//! What a cache promises:
//!
//! * What was written before a [`flush`](Cache::flush) that returned without an error is in the store, synced.
//! * An error of the store loses nothing that the pool holds: a page that could not be written stays dirty, and a page
//!   that was written goes only when a sync has ended well after it.
//! * The pool never takes more than its limit. At the limit writes go to the store at once, until the pool has come
//!   down to the accept threshold.

mod core;
mod counts;
mod file;
mod shrinker;
mod statistics;
mod table;
mod tier_device;
mod tier_file;
mod tier_store;
mod write_back;

pub use file::{BackingFile, OpenError, OpenMode};
pub use shrinker::Shortage;
pub use statistics::CacheStatistics;
pub use tier_device::{SEGMENT_BYTES, TierDevice, segments_for};
pub use tier_file::TierFile;
pub use tier_store::TierStore;
pub use write_back::Which;

use crate::backing::{Backing, Zeroing};
use crate::disk::{Disk, Options};
use crate::error::{CreateError, IoError};
use crate::io_counts::count;
use crate::volume::Extent;
use core::{Core, PAGE};
use shrinker::Shrinker;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// How a cache is made.
#[non_exhaustive]
pub struct CacheOptions {
    /// The pool: its limit, how it compresses. Its size is that of the store.
    pub pool: Options,
    /// After the limit was reached new pages are held again when the pool takes so much of it, in per cent.
    pub accept_threshold_percent: u64,
    /// How the shrinker sees that the machine is short of memory; it does not look without.
    pub shortage: Option<Shortage>,
}

impl CacheOptions {
    /// A pool of so many bytes at most, all else as it is by default.
    pub fn new(limit_bytes: u64) -> Self {
        let mut pool = Options::new(0);
        pool.limit_bytes = Some(limit_bytes);
        Self {
            pool,
            accept_threshold_percent: 90,
            shortage: None,
        }
    }
}

/// A write-back cache in compressed memory.
///
/// ```
/// use coldpress_disk::{BackingFile, Cache, CacheOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("coldpress-cache-example-{}", std::process::id()));
/// let file = BackingFile::create(&path, 1 << 20)?;
/// let cache = Cache::new(Box::new(file), CacheOptions::new(16 << 20))?;
/// cache.write(4096, b"some bytes")?;
/// cache.flush()?;
/// assert_eq!(&std::fs::read(&path)?[4096..4106], b"some bytes");
/// # std::fs::remove_file(&path)?;
/// # Ok(())
/// # }
/// ```
pub struct Cache {
    // First: it ends before anything else does.
    _shrinker: Shrinker,
    core: Arc<Core>,
    read_only: bool,
}

impl Cache {
    /// An empty cache before a store.
    ///
    /// # Errors
    /// The size or the limit cannot be, or there is no memory.
    pub fn new(backing: Box<dyn Backing>, options: CacheOptions) -> Result<Self, CreateError> {
        let mut pool = options.pool;
        let read_only = std::mem::replace(&mut pool.read_only, false);
        pool.size_bytes = backing.size_bytes();
        let accepted = options.accept_threshold_percent.min(100);
        let core = Arc::new(Core::new(Disk::new(&pool)?, backing, accepted));
        let shrinker = Shrinker::start(&core, options.shortage);
        Ok(Self {
            _shrinker: shrinker.ok_or(CreateError::NoMemory)?,
            core,
            read_only,
        })
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.core.backing.size_bytes()
    }

    /// Whether it cannot be written.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The pool, for what can be done with one: limit, compaction, settling. Whoever writes to it, or trims it, breaks
    /// the cache.
    pub fn pool(&self) -> &Disk {
        &self.core.disk
    }

    /// Changes the limit of the pool. What it holds above it is written back and evicted.
    ///
    /// # Errors
    /// The limit is below [`LEAST_LIMIT_BYTES`](crate::LEAST_LIMIT_BYTES).
    pub fn set_limit(&self, bytes: Option<u64>) -> Result<(), CreateError> {
        self.core.disk.set_limit(bytes)?;
        self.core.look_at_limit();
        Ok(())
    }

    /// Reads bytes from `offset` on.
    ///
    /// # Errors
    /// The store cannot be read ([`IoError::Backing`]), or a dirty page is damaged.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        self.check(offset, buffer.len() as u64)?;
        let read = self.core.read(offset, buffer);
        count(&self.core.counts.read_bytes, buffer.len() as u64);
        self.noted(read, &self.core.counts.failed_reads)
    }

    /// Writes bytes from `offset` on. With an error some of its pages may have been written.
    ///
    /// # Errors
    /// The store cannot be read, of whose pages a part is written, or cannot be written while the pool is full.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.check_writable(offset, data.len() as u64)?;
        let written = self.core.write(offset, data);
        count(&self.core.counts.written_bytes, data.len() as u64);
        self.noted(written, &self.core.counts.failed_writes)
    }

    /// Forgets whole pages inside the range, here and in the store; they read as zeros then.
    ///
    /// # Errors
    /// The store refused, or the range cannot be written.
    pub fn trim(&self, offset: u64, length: u64) -> Result<(), IoError> {
        self.check_writable(offset, length)?;
        let pages = offset.div_ceil(PAGE)..(offset + length) / PAGE;
        let trimmed = self.core.zero(pages, Zeroing::MayPunch);
        self.noted(trimmed, &self.core.counts.failed_writes)
    }

    /// Has the range read as zeros; `zeroing`: what may become of its space in the store.
    ///
    /// # Errors
    /// As [`write`](Self::write) and [`trim`](Self::trim).
    pub fn write_zeroes(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), IoError> {
        self.check_writable(offset, length)?;
        let end = offset + length;
        let pages = offset.div_ceil(PAGE)..end / PAGE;
        let parts = match pages.start <= pages.end {
            true => [offset..pages.start * PAGE, pages.end * PAGE..end],
            // Inside one page.
            false => [offset..end, end..end],
        };
        let zeros = [0; PAGE as usize];
        let mut zeroed = Ok(());
        for part in parts {
            let len = (part.end - part.start) as usize;
            zeroed = zeroed.and_then(|()| self.core.write(part.start, &zeros[..len]));
        }
        let zeroed = zeroed.and_then(|()| self.core.zero(pages, zeroing));
        self.noted(zeroed, &self.core.counts.failed_writes)
    }

    /// What was written before is in the store, and the store is synced.
    ///
    /// # Errors
    /// Some of it may not be there: it could not be written, or the sync failed. What the pool still holds stays dirty,
    /// and the next flush tries again.
    pub fn flush(&self) -> Result<(), IoError> {
        if self.read_only {
            Ok(())
        } else {
            self.core.flush()
        }
    }

    /// How far from `offset` on, `length` bytes at most, the range is data, or a hole. May end early; never 0.
    ///
    /// # Errors
    /// The range is empty, or not inside.
    pub fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), IoError> {
        self.check(offset, length)?;
        match length {
            0 => Err(IoError::OutOfRange),
            _ => Ok(self.core.extent(offset, length)),
        }
    }

    /// Evicts the least recently used pages, so many at most, after writing them back. How many.
    pub fn shrink(&self, pages: usize) -> u64 {
        self.core.evict_coldest(pages)
    }

    /// All pages that are held are idle until they are used.
    pub fn mark_idle(&self) {
        self.core.table.lock().mark_idle();
    }

    /// Evicts pages, after writing them back (zram: `writeback`). How many.
    pub fn write_back(&self, which: Which) -> u64 {
        self.core.evict_all(which)
    }

    /// What it holds, and what it has done.
    pub fn statistics(&self) -> CacheStatistics {
        self.core.statistics()
    }

    /// Checks invariants: for tests.
    ///
    /// # Panics
    /// If one is broken.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.core.table.lock().check_invariants();
        self.core.disk.check_invariants();
    }

    fn noted(&self, done: Result<(), IoError>, failed: &AtomicU64) -> Result<(), IoError> {
        done.inspect_err(|_| count(failed, 1))
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), IoError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size_bytes() => Ok(()),
            _ => {
                count(&self.core.counts.invalid_io, 1);
                Err(IoError::OutOfRange)
            }
        }
    }

    fn check_writable(&self, offset: u64, length: u64) -> Result<(), IoError> {
        if self.read_only {
            count(&self.core.counts.invalid_io, 1);
            return Err(IoError::ReadOnly);
        }
        self.check(offset, length)
    }
}
