//! `zx_info_kmem_stats_compression` of RFC-0219, field for field.

use super::record::record;
use super::residency::{REPORTED, Residency, UNIT_NS};
use crate::Engine;
use crate::machine::host::Host;
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_storage::CompressedStorage;
use core::sync::atomic::Ordering::Relaxed;

record! {
    /// How compression is doing, in the RFC's layout.
    #[c_name = "zx_info_kmem_stats_compression"]
    pub struct KmemStatsCompression {
        /// Content that compressed storage holds now, as long as it was before, in bytes. Markers
        /// are not in it: they take no storage.
        uncompressed_content_bytes: u64,
        /// Memory of the compressed storage with its tables, fragmentation and other overheads, in
        /// bytes. Tables do not shrink, so it can be above zero while there is no content.
        compressed_storage_bytes: u64,
        /// Bytes of its frames that are not part of any stored object.
        compressed_fragmentation_bytes: u64,
        /// Time spent compressing, all threads together, in nanoseconds. Measured by the host's
        /// clock: time in which a thread was not running meanwhile is in it.
        compression_time: i64,
        /// Time spent decompressing, likewise.
        decompression_time: i64,
        /// Pages on which compression was tried, whatever came of it.
        total_page_compression_attempts: u64,
        /// Of these: attempts whose result was not kept.
        failed_page_compression_attempts: u64,
        /// Pages that left storage by being decompressed.
        total_page_decompressions: u64,
        /// Pages that left storage without need of being decompressed.
        compressed_page_evictions: u64,
        /// Pages compressed because they were inactive, without memory pressure.
        eager_page_compressions: u64,
        /// Pages compressed because of memory pressure.
        memory_pressure_page_compressions: u64,
        /// Pages compressed because memory had run out or nearly so.
        critical_memory_page_compressions: u64,
        /// The unit of the buckets, in nanoseconds.
        pages_decompressed_unit_ns: u64,
        /// How long pages were compressed that were decompressed: bucket 0 below one unit, bucket n
        /// from 2^(n-1) to 2^n units, up to 128. Subtract all from `total_page_decompressions` for
        /// what is longer.
        pages_decompressed_within_log_time: [u64; REPORTED],
    }
}

impl From<&Self> for KmemStatsCompression {
    fn from(stats: &Self) -> Self {
        *stats
    }
}

impl KmemStatsCompression {
    /// Pages that were compressed for longer than 128 units before they were decompressed: "can be
    /// inferred by subtracting", says the RFC.
    pub fn pages_decompressed_later(&self) -> u64 {
        let reported: u64 = self.pages_decompressed_within_log_time.iter().sum();
        self.total_page_decompressions - reported
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// How compression is doing. Takes the storage lock for a moment.
    pub fn kmem_stats_compression(&self) -> KmemStatsCompression {
        let c = self.counters();
        let usage = self.storage_usage();
        let failed = c.failed_compressions.load(Relaxed);
        let eager = c.eager_compressions.load(Relaxed);
        let pressure = c.pressure_compressions.load(Relaxed);
        let critical = c.critical_compressions.load(Relaxed);
        let attempts = c.compression_attempts.load(Relaxed);
        let residency = Residency::read(&c.decompressed_within_log_seconds);
        KmemStatsCompression {
            uncompressed_content_bytes: c.compressed_pages.load(Relaxed) * PAGE_SIZE as u64,
            compressed_storage_bytes: (usage.storage_bytes + usage.metadata_bytes) as u64,
            compressed_fragmentation_bytes: usage.fragmentation_bytes as u64,
            compression_time: c.compression_time_ns.load(Relaxed) as i64,
            decompression_time: c.decompression_time_ns.load(Relaxed) as i64,
            // Counted first and read last; where a machine orders it otherwise, a page more or less
            // has been tried at this moment, but none was kept or has failed that was not.
            total_page_compression_attempts: attempts.max(failed + eager + pressure + critical),
            failed_page_compression_attempts: failed,
            total_page_decompressions: residency.total(),
            compressed_page_evictions: c.freed_compressed.load(Relaxed),
            eager_page_compressions: eager,
            memory_pressure_page_compressions: pressure,
            critical_memory_page_compressions: critical,
            pages_decompressed_unit_ns: UNIT_NS,
            pages_decompressed_within_log_time: residency.reported(),
        }
    }
}
