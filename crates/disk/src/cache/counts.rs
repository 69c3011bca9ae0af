//! What a cache counts as it happens.

use std::sync::atomic::AtomicU64;

/// What a cache counts as it happens; meanings stand in [`CacheStatistics`](super::CacheStatistics).
#[derive(Default)]
pub(crate) struct CacheCounts {
    pub(crate) read_hits: AtomicU64,
    pub(crate) read_misses: AtomicU64,
    pub(crate) written_back_pages: AtomicU64,
    pub(crate) written_through_pages: AtomicU64,
    pub(crate) evicted_pages: AtomicU64,
    pub(crate) pool_limit_hit: AtomicU64,
    pub(crate) reject_alloc_fail: AtomicU64,
    pub(crate) reject_reclaim_fail: AtomicU64,
    pub(crate) backing_read_errors: AtomicU64,
    pub(crate) backing_write_errors: AtomicU64,
    pub(crate) backing_sync_errors: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) failed_reads: AtomicU64,
    pub(crate) failed_writes: AtomicU64,
    pub(crate) invalid_io: AtomicU64,
    pub(crate) trimmed_pages: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
}
