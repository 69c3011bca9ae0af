//! Figures of a cache, under zswap's names where they mean what zswap's mean.

use super::core::Core;
use crate::statistics::Statistics;
use coldpress_storage::FRAME_BYTES;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a cache holds, and what it has done. The first nine have zswap's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatistics {
    /// Pages that are held, in whatever form.
    pub stored_pages: u64,
    /// Bytes of frames and tables that they take.
    pub pool_total_size: u64,
    /// Pages that are one word, repeated, zero too, and take no frame.
    pub same_filled_pages: u64,
    /// Pages that were written to their place in the store from the pool, ever.
    pub written_back_pages: u64,
    /// How often a page found no room because the pool was at its limit, ever.
    pub pool_limit_hit: u64,
    /// Pages that missed the target size when they were compressed, ever. They are held as they are (as zswap holds
    /// them since Linux 6.18), as long as others would be.
    pub reject_compress_poor: u64,
    /// Held pages whose checksum was wrong, ever.
    pub reject_compress_fail: u64,
    /// How often a page found no room though the pool was below its limit, ever: the machine had no memory.
    pub reject_alloc_fail: u64,
    /// Pages that could not be written back when it was tried, ever. They stay.
    pub reject_reclaim_fail: u64,
    /// Pages that are held as they are, since they do not compress.
    pub stored_incompressible_pages: u64,
    /// Pages of which the store may have an older content.
    pub dirty_pages: u64,
    /// Pages that are not held any more since others were wanted, or memory, ever.
    pub evicted_pages: u64,
    /// Pages that clients wrote while the pool was full, and that went to the store at once, ever.
    pub written_through_pages: u64,
    /// Pages that were read from the pool, ever.
    pub read_hits: u64,
    /// Pages that were read from the store, ever.
    pub read_misses: u64,
    /// Reads of the store that failed, ever.
    pub backing_read_errors: u64,
    /// Writes to the store that failed, ever.
    pub backing_write_errors: u64,
    /// Syncs of the store that failed, ever.
    pub backing_sync_errors: u64,
    /// Syncs of the store, ever.
    pub syncs: u64,
    /// The pool as a disk; its `io_stat` and bytes are what clients asked of the cache.
    pub disk: Statistics,
}

impl Core {
    pub(crate) fn statistics(&self) -> CacheStatistics {
        let mut disk = self.disk.statistics();
        let c = &self.counts;
        let value = |counter: &AtomicU64| counter.load(Relaxed);
        disk.failed_reads = value(&c.failed_reads);
        disk.failed_writes = value(&c.failed_writes);
        disk.invalid_io = value(&c.invalid_io);
        disk.notify_free = value(&c.trimmed_pages);
        disk.read_bytes = value(&c.read_bytes);
        disk.written_bytes = value(&c.written_bytes);
        let (stored_pages, dirty_pages) = {
            let table = self.table.lock();
            (table.pages(), table.dirty_pages())
        };
        let held = disk.pages_in_place + disk.compressed_pages;
        let frames = &self.volume().shared.machine.frames;
        CacheStatistics {
            stored_pages,
            pool_total_size: frames.held_frames() * FRAME_BYTES as u64,
            same_filled_pages: stored_pages.saturating_sub(held),
            written_back_pages: value(&c.written_back_pages),
            pool_limit_hit: value(&c.pool_limit_hit),
            reject_compress_poor: disk.huge_pages_since,
            reject_compress_fail: disk.damaged_pages,
            reject_alloc_fail: value(&c.reject_alloc_fail),
            reject_reclaim_fail: value(&c.reject_reclaim_fail),
            stored_incompressible_pages: disk.huge_pages,
            dirty_pages,
            evicted_pages: value(&c.evicted_pages),
            written_through_pages: value(&c.written_through_pages),
            read_hits: value(&c.read_hits),
            read_misses: value(&c.read_misses),
            backing_read_errors: value(&c.backing_read_errors),
            backing_write_errors: value(&c.backing_write_errors),
            backing_sync_errors: value(&c.backing_sync_errors),
            syncs: value(&c.syncs),
            disk,
        }
    }
}
