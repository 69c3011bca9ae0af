//! Queries of RFC-0219 about a disk: by topic and version, as `zx_object_get_info` answers them.
//!
//! A disk is a machine under VMOs, so it knows how compression is doing (`KMEM_STATS_COMPRESSION`), and it is the task
//! of all its clients: their reads, and writes of parts of pages, are the faults of `TASK_RUNTIME`, which may have to
//! decompress. What the process does besides is its program's to know ([`ProcessTimes`]).

use crate::disk::Disk;
use crate::shared::Shared;
use coldpress_engine::metrics::KmemStatsCompression;
use coldpress_engine::metrics::accounting::TaskRuntimeFigures;
use coldpress_engine::metrics::query::{self, Answer, QueryError, Subject};

/// Times of the process that a disk is in, in nanoseconds; 0: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    /// On a processor.
    pub cpu_time_ns: u64,
    /// Ready to run, and waiting for one.
    pub queue_time_ns: u64,
}

/// A disk that is asked.
struct Asked<'a> {
    shared: &'a Shared,
    process: ProcessTimes,
}

impl Subject for Asked<'_> {
    fn compression(&self) -> Option<KmemStatsCompression> {
        Some(self.shared.engine().kmem_stats_compression())
    }

    fn task_runtime(&self) -> Option<TaskRuntimeFigures> {
        Some(TaskRuntimeFigures {
            cpu_time_ns: self.process.cpu_time_ns,
            queue_time_ns: self.process.queue_time_ns,
            faults: self.shared.times.read(),
            lock_contention_time_ns: 0,
        })
    }
}

impl Disk {
    /// Answers a query into `buffer`, in the layout of the topic's version
    /// ([`topic`](coldpress_engine::metrics::query::topic)).
    ///
    /// # Errors
    /// There is no such topic, a disk has nothing to say of it, or there is no room for the record.
    pub fn get_info(
        &self,
        topic: u32,
        process: ProcessTimes,
        buffer: &mut [u8],
    ) -> Result<Answer, QueryError> {
        let asked = Asked {
            shared: self.shared(),
            process,
        };
        query::get_info(&asked, topic, buffer)
    }
}
