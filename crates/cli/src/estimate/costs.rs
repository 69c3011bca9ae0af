//! What the estimate takes as given: what a fault costs, what the pager itself holds, how it chooses the cold age.
//!
//! | constant | from |
//! |---|---|
//! | [`FAULT_WAIT_NS`] | docs/measurements.md, "one thread at random, a slow touch, p50" under coldpress |
//! | [`CYCLE_CPU_NS`] | docs/measurements.md, redis with skewed keys, "CPU beyond native, an out-and-in cycle" |
//! | [`OVERHEAD_BYTES`], [`OVERHEAD_ANEW_BYTES`] | `overhead_bytes` of `coldpress status PID --json` at rest, without what is derived (ADR 0035) |
//! | the rest | `crates/pager/src/reclaim/cold_age.rs`, which chooses by these |

/// A thread waits so long for a page that comes back.
pub const FAULT_WAIT_NS: f64 = 18_700.0;
/// Processor time that a page which leaves and comes back costs, beyond what the program does natively.
pub const CYCLE_CPU_NS: f64 = 52_800.0;

/// Processor time that a page takes which leaves and does not come back: as the pager reckons for its pace.
pub const EVICTION_CPU_NS: f64 = COLD_AGE_FAULT_NS;

/// Buffers and codec state of the pager, whatever the program.
pub const OVERHEAD_BYTES: f64 = 88.0 * 1024.0;
/// What it reckons for each of its threads: `crates/pager/src/lib.rs`, `fixed_overhead_bytes`.
pub const OVERHEAD_THREAD_BYTES: f64 = 3.0 * 4096.0;
/// Its threads that do not answer faults: ARCHITECTURE.md, "Threads".
pub const OTHER_THREADS: f64 = 2.0;
/// So many answer faults at most.
pub const MOST_HANDLERS: usize = 64;
/// What it holds where pages are stored anew: tables, and buffers to make them and to encode with.
pub const OVERHEAD_ANEW_BYTES: f64 = 240.0 * 1024.0;
/// What it holds for each page that it knows: an entry, a record, and its part of the storage's tables
/// (`crates/engine/src/compression/metadata.rs`).
pub const OVERHEAD_PAGE_BYTES: f64 = 26.0;
/// What it holds for each window of [`WINDOW_BYTES`] in which there is a page: `crates/pager/src/space/windows.rs`.
pub const OVERHEAD_WINDOW_BYTES: f64 = 10.0 * 1024.0;
/// Frames of storage that came free are kept for what is stored next, so many at most, and one part in
/// [`IDLE_FRAMES_PART`] of the storage: `crates/pager/src/memory/frames.rs`.
pub const IDLE_FRAMES_BYTES: f64 = 256.0 * 4096.0;
/// See [`IDLE_FRAMES_BYTES`].
pub const IDLE_FRAMES_PART: f64 = 64.0;
/// `crates/pager/src/space/windows.rs`. Where a program's memory is spread over its address space there are many.
pub const WINDOW_BYTES: u64 = 32 << 20;

/// The shortest cold age that is chosen, in seconds.
pub const SHORTEST_COLD_AGE_S: f64 = 2.0;
/// It is that from the beginning in a program that has so much; in one with half of it twice that, and so on.
pub const LARGE_BYTES: f64 = 64.0 * 1024.0 * 1024.0;
/// The longest that the pager begins with, in seconds.
pub const LONGEST_FIRST_AGE_S: f64 = 60.0;
/// Faults may cost such a share of the time, at [`COLD_AGE_FAULT_NS`] each, for the age to stay.
pub const COLD_AGE_SHARE: f64 = 0.001;
/// Or so many of the pages in place may come back in a second, where that is more: 0.2 % a minute.
pub const COLD_AGE_REFAULTS: f64 = 0.002 / 60.0;
/// What a page that comes back costs, for that choice.
pub const COLD_AGE_FAULT_NS: f64 = 10_000.0;
/// What threads may wait for faults in the first minute, as a share of the time, for the age not to become longer.
pub const EARLY_SHARE: f64 = 0.005;
/// How long the first minute is.
pub const EARLY_S: f64 = 60.0;
/// Pages that may come back at first, before anything was earned.
pub const FIRST_REFAULTS: f64 = 3_000.0;
/// A page that comes back soon is passed over up to so many times: it stays if it is touched within so many cold ages.
pub const SECOND_CHANCES: f64 = 15.0;

/// So many pages may go for their age in each second of a program's life: an eighth of the time, at 10 µs each.
pub const PACE_PAGES_S: f64 = 1e9 / 8.0 / COLD_AGE_FAULT_NS;

/// What a suggested budget gives beyond what is expected to be held: so that neither a wave of use nor an error of the
/// estimate makes it tight.
pub const BUDGET_MARGIN: f64 = 1.1;
/// The least room that it gives.
pub const BUDGET_ROOM_BYTES: f64 = 4.0 * 1024.0 * 1024.0;
