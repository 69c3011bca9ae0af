//! How compression is doing: RFC-0219 "Accounting and Metrics".
//!
//! | concept | file |
//! |---|---|
//! | one table of counters | [`counters`](crate::figures::counters) |
//! | any figure, with name and unit | [`figure`] |
//! | how long pages were compressed | [`residency`] |
//! | latency percentiles | [`latency`] |
//! | what was compressed and why | [`kept`](Origin) |
//! | `zx_info_kmem_stats_compression` | [`kmem`] |
//! | what a task waited for pages | [`task_times`] |
//! | what is asked of a VMO, a mapping, a process, the system | [`accounting`] |
//! | pages of a VMO and their peak | [`tracker`] |
//! | records with a fixed layout, for C | [`record`], [`layouts`] |
//! | queries by topic and version | [`query`] |
//!
//! The records stand in C in `include/coldpress_info.h`; a test compiles it and compares. What each
//! figure means is in `docs/metrics.md`.
//!
//! No lock but the storage lock, for a moment, when usage is asked. Counters are relaxed atomics,
//! each right by itself; where one figure is to be subtracted from another, both are read in an
//! order, or derived from one array, such that the difference is never negative.
//!
//! What this module deliberately does not do: attribute compressed bytes to VMOs. RFC-0219: content
//! that is compressed "is considered to be of an unknown storage size".

pub mod accounting;
pub mod figure;
pub mod kmem;
pub mod layouts;
pub mod query;
pub mod record;
pub mod task_times;

pub use crate::compression::kept::Origin;
pub use crate::figures::{latency, residency, tracker};
pub use kmem::KmemStatsCompression;
pub use task_times::TaskTimes;
