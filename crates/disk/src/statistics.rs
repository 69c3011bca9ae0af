//! Figures of a disk, under zram's names where they mean what zram's mean.

use crate::shared::Shared;
use coldpress_codec::CodecKind;
use coldpress_storage::{FRAME_BYTES, StorageKind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a disk holds, and what it has done. The first nine are zram's `mm_stat`, the four that follow its `io_stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes of pages that hold something, uncompressed. Of a page that snapshots share once. Pages that were written
    /// as zeros hold nothing.
    pub orig_data_size: u64,
    /// The same as they are held: payload of compressed pages, and 4096 bytes for each that is in place.
    pub compr_data_size: u64,
    /// Memory that the disk takes: frames, and tables. (zram: frames alone.) The process has some MiB beside.
    pub mem_used_total: u64,
    /// The most that it may be; 0: as much as there is.
    pub mem_limit: u64,
    /// The most that it was.
    pub mem_used_max: u64,
    /// Pages that are one word, repeated, and take no memory.
    pub same_pages: u64,
    /// Frames that compaction has freed.
    pub pages_compacted: u64,
    /// Pages that do not compress, and are held as they are.
    pub huge_pages: u64,
    /// Pages that did not compress when they were tried, ever.
    pub huge_pages_since: u64,
    /// Reads that failed: damaged pages.
    pub failed_reads: u64,
    /// Writes that failed: no space, above all.
    pub failed_writes: u64,
    /// Requests that are not inside the disk, or that would write where that is forbidden.
    pub invalid_io: u64,
    /// Pages that were trimmed.
    pub notify_free: u64,
    /// Size of the disk.
    pub disksize: u64,
    /// Bytes read, ever.
    pub read_bytes: u64,
    /// Bytes written, ever.
    pub written_bytes: u64,
    /// Pages in place, uncompressed, because they were written a moment ago, or do not compress.
    pub pages_in_place: u64,
    /// Pages in storage.
    pub compressed_pages: u64,
    /// Bytes of frames that storage holds.
    pub storage_bytes: u64,
    /// Bytes of tables.
    pub table_bytes: u64,
    /// Of these: of the dictionaries of recompression.
    pub dictionary_bytes: u64,
    /// Compressions, ever.
    pub compressions: u64,
    /// Pages that were stored anew by recompression, ever.
    pub recompressed_pages: u64,
    /// Stored pages that were found damaged, ever.
    pub damaged_pages: u64,
    /// How pages are compressed.
    pub codec: CodecKind,
    /// How compressed pages are packed.
    pub storage: StorageKind,
}

impl Shared {
    /// Objects that were freed, ever.
    pub(crate) fn objects_freed(&self) -> u64 {
        let c = self.engine().counters();
        c.freed_compressed.load(Relaxed) + c.decompressions.load(Relaxed)
    }

    pub(crate) fn statistics(&self, disksize: u64) -> Statistics {
        let engine = self.engine();
        self.count_tables();
        let (c, usage, frames) = (
            engine.counters(),
            engine.storage_usage(),
            &self.machine.frames,
        );
        let value = |counter: &AtomicU64| counter.load(Relaxed);
        let page = FRAME_BYTES as u64;
        let in_place = u64::from(engine.resident_pages()) + self.machine.staged();
        let (stored, same) = (value(&c.compressed_pages), value(&c.same_filled_pages));
        let moved = value(&c.compaction_frames_freed);
        Statistics {
            orig_data_size: (in_place + stored + same) * page,
            compr_data_size: in_place * page + usage.payload_bytes as u64,
            mem_used_total: frames.used_bytes(),
            mem_limit: frames.limit_bytes().unwrap_or(0),
            mem_used_max: frames.peak_bytes(),
            same_pages: same,
            pages_compacted: moved.saturating_sub(value(&c.compaction_frames_taken)),
            huge_pages: engine.failed_pages().into(),
            huge_pages_since: value(&c.incompressible),
            failed_reads: value(&self.io.failed_reads),
            failed_writes: value(&self.io.failed_writes),
            invalid_io: value(&self.io.invalid_io),
            notify_free: value(&self.io.notify_free),
            disksize,
            read_bytes: value(&self.io.read_bytes),
            written_bytes: value(&self.io.written_bytes),
            pages_in_place: in_place,
            compressed_pages: stored,
            storage_bytes: usage.storage_bytes as u64,
            table_bytes: self.table_bytes(),
            dictionary_bytes: self.dictionaries.bytes(),
            compressions: value(&c.compression_attempts),
            recompressed_pages: value(&c.recoded),
            damaged_pages: value(&c.corrupt),
            codec: engine.codec().kind(),
            storage: self.storage_kind(),
        }
    }
}
