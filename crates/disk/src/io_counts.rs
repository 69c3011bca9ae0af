//! What is counted as it happens: zram's `io_stat`, and bytes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is counted as it happens.
#[derive(Default)]
pub(crate) struct IoCounts {
    pub(crate) failed_reads: AtomicU64,
    pub(crate) failed_writes: AtomicU64,
    pub(crate) invalid_io: AtomicU64,
    pub(crate) notify_free: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
}

impl IoCounts {
    /// All counters are 0.
    pub(crate) fn begin_anew(&self) {
        let counters = [
            &self.failed_reads,
            &self.failed_writes,
            &self.invalid_io,
            &self.notify_free,
            &self.read_bytes,
            &self.written_bytes,
        ];
        counters
            .into_iter()
            .for_each(|counter| counter.store(0, Relaxed));
    }
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}
