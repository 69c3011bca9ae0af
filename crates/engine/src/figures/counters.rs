//! What the engine counts, as one table: RFC-0219 "Metrics".
//!
//! A row of the table is `name: kind unit,` after a comment that says what is counted; the comment
//! becomes documentation and the help text of the figure. Whoever wants all of them (status, JSON,
//! a metrics endpoint) asks [`Counters::figures`] and need not know any by name. Invariants, while
//! nobody is at work:
//!
//! * I1 `compression_attempts` = `failed_compressions` + the three of the triggers: a page that is
//!   tried is kept for one reason or given back for one.
//! * I2 `failed_compressions` = `incompressible` + `no_storage` + `raced`, and `no_storage` =
//!   `no_frame` + `no_storage_metadata`.
//! * I3 What was kept, by trigger, by origin and by form, is the same sum three times.
//! * I4 `decompressions` = the sum of the nine buckets of residency ([`crate::vm::metrics`]).
//! * I5 `kept_stored` = `compressed_pages` + `decompressions` + `freed_compressed`: what entered
//!   storage is still there, or left it in one of the two ways. (Not in the child of a fork, which counts from
//!   zero while it has what its parent compressed.)

use crate::figures::latency::Latency;
use crate::figures::{Figure, Kind, Unit, residency};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! kind {
    () => {
        Kind::Counter
    };
    (gauge) => {
        Kind::Gauge
    };
    (counter) => {
        Kind::Counter
    };
}

macro_rules! unit {
    () => {
        Unit::Times
    };
    (times) => {
        Unit::Times
    };
    (pages) => {
        Unit::Pages
    };
    (bytes) => {
        Unit::Bytes
    };
    (nanoseconds) => {
        Unit::Nanoseconds
    };
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident $(: $kind:ident $unit:ident)?,)*) => {
        /// Free-running counters and gauges; each by itself, none guarded by a lock.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: AtomicU64,)*
            /// How long pages were compressed before they were decompressed: bucket 0 below a
            /// second, bucket n from 2^(n-1) to 2^n seconds, the ninth beyond 128.
            pub decompressed_within_log_seconds: [AtomicU64; residency::BUCKETS],
            /// How long it took to compress a page, or to find that it does not.
            pub compression_latency: Latency,
            /// How long it took to decompress a page and to verify it.
            pub decompression_latency: Latency,
        }

        impl Counters {
            pub(crate) const fn new() -> Self {
                Self {
                    $($name: AtomicU64::new(0),)*
                    decompressed_within_log_seconds: [const { AtomicU64::new(0) }; residency::BUCKETS],
                    compression_latency: Latency::new(),
                    decompression_latency: Latency::new(),
                }
            }

            /// Counts from zero again; what is a gauge stays. Nobody is at work.
            pub fn begin_anew(&self) {
                $(if matches!(kind!($($kind)?), Kind::Counter) {
                    self.$name.store(0, Relaxed);
                })*
                for bucket in &self.decompressed_within_log_seconds {
                    bucket.store(0, Relaxed);
                }
                self.compression_latency.begin_anew();
                self.decompression_latency.begin_anew();
            }

            /// The rows of the table, in its order.
            pub(crate) fn rows(&self) -> impl Iterator<Item = Figure> {
                [$(Figure {
                    name: stringify!($name),
                    kind: kind!($($kind)?),
                    unit: unit!($($unit)?),
                    help: concat!($($doc),+),
                    value: self.$name.load(Relaxed),
                },)*].into_iter()
            }
        }
    };
}

counters! {
    /// Pages held by compressed storage now.
    compressed_pages: gauge pages,
    /// Pages held as zero or same-filled markers now.
    same_filled_pages: gauge pages,
    /// Of these: pages held as zero markers.
    zero_pages: gauge pages,
    /// Pages evicted so far.
    evictions: counter pages,
    /// Pages that could not be evicted, for whatever reason.
    refused: counter pages,
    /// Refused pages that the host could not move (pinned, shared, unmovable).
    refused_by_host: counter pages,
    /// Pages chosen for eviction that were no longer there.
    holes: counter pages,
    /// Compressions tried.
    compression_attempts: counter pages,
    /// Compressions whose result was not kept: incompressible, no storage, or overtaken.
    failed_compressions: counter pages,
    /// Failed compressions: the page did not reach the target size.
    incompressible: counter pages,
    /// Failed compressions: no room in storage for the result, for whatever reason.
    no_storage: counter pages,
    /// Failed compressions: no frame for the result.
    no_frame: counter pages,
    /// Failed compressions: no room for the result, since the tables of storage could not grow.
    no_storage_metadata: counter pages,
    /// Failed compressions: the page was touched or freed meanwhile.
    raced: counter pages,
    /// Compressions by the eager trigger that were kept.
    eager_compressions: counter pages,
    /// Compressions under pressure that were kept.
    pressure_compressions: counter pages,
    /// Compressions above the budget that were kept.
    critical_compressions: counter pages,
    /// Anonymous pages that were kept compressed or as markers.
    kept_anonymous: counter pages,
    /// Pages forked from the zero page by a write that were kept compressed or as markers.
    kept_zero_fork: counter pages,
    /// Pages of pager-backed VMOs that were kept compressed or as markers.
    kept_pager_backed: counter pages,
    /// Pages kept as a zero marker, without storage.
    kept_zero: counter pages,
    /// Pages kept as a same-filled marker, without storage.
    kept_same_filled: counter pages,
    /// Pages kept in compressed storage.
    kept_stored: counter pages,
    /// Pages decompressed and resident again.
    decompressions: counter pages,
    /// Stored pages freed without being decompressed, or whose content was no longer wanted, or doubtful,
    /// once it was decompressed.
    freed_compressed: counter pages,
    /// Faults answered from compressed storage.
    faults_decompressed: counter times,
    /// Faults answered with a copy of a page in staging.
    faults_copied: counter times,
    /// Faults answered from a zero or same-filled marker.
    faults_same_filled: counter times,
    /// Faults answered with a fresh zero page.
    faults_zero: counter times,
    /// Faults that found no frame for a page; its content is kept as it is.
    faults_no_frame: counter times,
    /// Faults on a page that was already resident, or that another worker was restoring.
    faults_present: counter times,
    /// Pages read ahead: restored before they were touched, since earlier faults led there.
    read_ahead: counter pages,
    /// Restores repeated because the address space was changing.
    copy_again: counter times,
    /// Stored pages whose checksum was wrong.
    corrupt: counter pages,
    /// Pages that the host refused to install for an unknown reason; poisoned.
    refused_installs: counter pages,
    /// Pages that could not be tracked, and batches that could not be stored completely, for lack of
    /// metadata.
    no_metadata: counter times,
    /// Stored objects moved by compaction.
    compaction_moves: counter times,
    /// Frames that compaction gave back.
    compaction_frames_freed: counter times,
    /// Frames that compaction took to move objects into.
    compaction_frames_taken: counter times,
    /// Time spent compacting, in nanoseconds.
    compaction_time_ns: counter nanoseconds,
    /// Stored pages that were recompressed, or tried.
    recode_attempts: counter pages,
    /// Of these: pages that became small enough and replaced the stored one.
    recoded: counter pages,
    /// Of these: pages touched, dropped or moved meanwhile, pages for which there was no place, and wrong results.
    recode_failures: counter pages,
    /// Bytes by which these objects became smaller, ever.
    recode_saved_bytes: counter bytes,
    /// Stored pages whose payload is below memory now: storage holds their stubs.
    written_back_pages: gauge pages,
    /// Pages whose payload was written back, ever.
    write_backs: counter pages,
    /// Pages whose payload was read back, ever.
    read_backs: counter pages,
    /// Reads of a payload that failed; the page is poisoned.
    failed_read_backs: counter pages,
    /// Generations opened because it was time.
    aged_by_time: counter times,
    /// Generations opened because too many pages were active.
    aged_by_active_ratio: counter times,
    /// Generations opened by hand.
    aged_by_hand: counter times,
    /// Pages whose accessed bit was asked for.
    harvested: counter pages,
    /// Of these: pages that were accessed.
    accessed: counter pages,
    /// Pages passed over because they had refaulted soon before.
    second_chances: counter pages,
    /// Pages picked by random debug compression.
    picked: counter pages,
    /// Batches that were not begun because their trigger is switched off.
    switched_off: counter times,
    /// Time spent compressing, in nanoseconds.
    compression_time_ns: counter nanoseconds,
    /// Time spent decompressing, in nanoseconds.
    decompression_time_ns: counter nanoseconds,
}

/// What the tables of storage had for a page that is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageTables {
    /// Room.
    HadRoom,
    /// None, and there was no memory for more.
    Full,
}

impl Counters {
    /// A page was tried, which took so long.
    pub(crate) fn tried(&self, ns: u64) {
        add(&self.compression_attempts, 1);
        add(&self.compression_time_ns, ns);
        self.compression_latency.record(ns);
    }

    /// What was tried is not kept, for this reason.
    pub(crate) fn failed(&self, reason: &AtomicU64, tables: StorageTables) {
        if core::ptr::eq(reason, &self.no_storage) {
            let missing = match tables {
                StorageTables::HadRoom => &self.no_frame,
                StorageTables::Full => &self.no_storage_metadata,
            };
            add(missing, 1);
        }
        add(reason, 1);
        add(&self.failed_compressions, 1);
    }

    /// A page was decompressed and verified, or found damaged, which took so long.
    pub(crate) fn decompressed(&self, ns: u64) {
        add(&self.decompression_time_ns, ns);
        self.decompression_latency.record(ns);
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Relaxed);
}

/// Takes from a gauge.
pub(crate) fn sub(gauge: &AtomicU64, value: u64) {
    gauge.fetch_sub(value, Relaxed);
}
