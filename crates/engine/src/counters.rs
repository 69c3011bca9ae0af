//! What the engine counts: RFC-0219 "Metrics", `zx_info_kmem_stats_compression`.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Free-running counters and gauges; each by itself, none guarded by a lock.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// How long pages were compressed before they were decompressed: bucket 0 below a
            /// second, bucket n from 2^(n-1) to 2^n seconds, the ninth beyond 128.
            pub decompressed_within_log_seconds: [AtomicU64; 9],
        }

        impl Counters {
            pub(crate) const fn new() -> Self {
                Self {
                    $($name: AtomicU64::new(0),)*
                    decompressed_within_log_seconds: [const { AtomicU64::new(0) }; 9],
                }
            }
        }
    };
}

counters! {
    /// Pages held by compressed storage now.
    compressed_pages,
    /// Pages held as zero or same-filled markers now.
    same_filled_pages,
    /// Pages taken out, ever.
    evictions,
    /// Pages that the host refused to take.
    refused,
    /// Compressions tried.
    compression_attempts,
    /// Compressions whose result was not kept: incompressible, no storage, or overtaken.
    failed_compressions,
    /// Of these: the page did not reach the target size.
    incompressible,
    /// Of these: no frame or no metadata for the result.
    no_storage,
    /// Of these: the page was touched or freed meanwhile.
    raced,
    /// Pages decompressed.
    decompressions,
    /// Pages of storage freed without being decompressed.
    freed_compressed,
    /// Compressions by the eager trigger that were kept.
    eager_compressions,
    /// Compressions under pressure that were kept.
    pressure_compressions,
    /// Compressions above the budget that were kept.
    critical_compressions,
    /// Faults answered from compressed storage.
    faults_decompressed,
    /// Faults answered with a copy of a page in staging.
    faults_copied,
    /// Faults answered from a zero or same-filled marker.
    faults_same_filled,
    /// Faults answered with a fresh zero page.
    faults_zero,
    /// Faults on a page that was in place already, or that another worker was restoring.
    faults_present,
    /// Restores repeated because the address space was changing.
    copy_again,
    /// Stored pages whose checksum was wrong.
    corrupt,
    /// Pages that the host refused to put in place for a reason it could not name; poisoned.
    refused_installs,
    /// Pages that could not be tracked for want of metadata.
    no_metadata,
    /// Stored objects moved by compaction.
    compaction_moves,
    /// Frames that compaction gave back.
    compaction_frames_freed,
    /// Frames that compaction took to move objects into.
    compaction_frames_taken,
    /// Time spent compacting, in nanoseconds.
    compaction_time_ns,
    /// Generations opened because it was time.
    aged_by_time,
    /// Generations opened because too many pages were active.
    aged_by_active_ratio,
    /// Generations opened by hand.
    aged_by_hand,
    /// Pages whose accessed bit was asked for.
    harvested,
    /// Of these: pages that were accessed.
    accessed,
    /// Pages picked by random debug compression.
    picked,
    /// Batches that were not begun because their trigger is switched off.
    switched_off,
    /// Time spent compressing, in nanoseconds.
    compression_time_ns,
    /// Time spent decompressing, in nanoseconds.
    decompression_time_ns,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Relaxed);
}

/// Takes from a gauge.
pub(crate) fn sub(gauge: &AtomicU64, value: u64) {
    gauge.fetch_sub(value, Relaxed);
}
