//! What tasks waited for their pages: RFC-0219 extends `ZX_INFO_TASK_RUNTIME` by
//! `page_fault_decompress_time`, "as a subset of total `page_fault` time".
//!
//! Each worker sums up, in a field of its own, the time it decompresses; whoever wants to know a
//! task's times looks at it before and after ([`Worker::timed`]). So a fault for which nobody asks
//! pays one addition to a field that is in the cache, and nothing where nothing is decompressed.
//!
//! Invariant I1: whoever reads a pair ([`TaskTimes::read`]) finds the part not above the whole. The
//! whole is added first, and read last.

use crate::compression::fault::FaultOutcome;
use crate::compression::worker::Worker;
use crate::machine::host::{Access, Host};
use crate::{Engine, PageIndex, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The times of one task: a thread, or all threads of a process that have ended.
#[derive(Debug, Default)]
pub struct TaskTimes {
    page_fault_ns: AtomicU64,
    page_fault_decompress_ns: AtomicU64,
}

/// A reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultTimes {
    /// Time in page faults, all in all, in nanoseconds.
    pub page_fault_ns: u64,
    /// Of this: time spent decompressing.
    pub page_fault_decompress_ns: u64,
}

impl TaskTimes {
    /// A task that has not faulted yet.
    pub const fn new() -> Self {
        Self {
            page_fault_ns: AtomicU64::new(0),
            page_fault_decompress_ns: AtomicU64::new(0),
        }
    }

    /// The times at this moment.
    pub fn read(&self) -> FaultTimes {
        let page_fault_decompress_ns = self.page_fault_decompress_ns.load(Acquire);
        FaultTimes {
            page_fault_ns: self.page_fault_ns.load(Relaxed),
            page_fault_decompress_ns,
        }
    }

    /// Adds times: of a fault, or of a thread that ends to those of its process.
    pub fn add(&self, times: FaultTimes) {
        self.page_fault_ns.fetch_add(times.page_fault_ns, Relaxed);
        self.page_fault_decompress_ns
            .fetch_add(times.page_fault_decompress_ns, Release);
    }
}

impl<C: PageCodec> Worker<C> {
    /// Does something that may restore pages, on behalf of a task. Not within another.
    pub fn timed<H: Host, R>(
        &mut self,
        host: &H,
        times: &TaskTimes,
        act: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let (started, decompressed) = (host.now_ns(), self.decompression_ns);
        let result = act(self);
        times.add(FaultTimes {
            page_fault_ns: host.now_ns().saturating_sub(started),
            page_fault_decompress_ns: self.decompression_ns - decompressed,
        });
        result
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Answers a touch as [`fault`](Self::fault) does, and tells the task what it took.
    pub fn fault_of_task(
        &self,
        host: &H,
        worker: &mut Worker<C>,
        segment: SegmentId,
        index: PageIndex,
        access: Access,
        times: &TaskTimes,
    ) -> FaultOutcome {
        worker.timed(host, times, |worker| {
            self.fault(host, worker, segment, index, access)
        })
    }
}
