//! What all volumes of a disk share: the machine, the VMOs on it, contexts, figures, and making room.
//!
//! A page that is written stands in a frame of its own until it is cold; then the [scanner](crate::scanner) compresses
//! it. Two things make threads that write compress, too, the coldest pages first:
//!
//! * no frame is left below the limit: [`Shared::make_room`]. Where nothing more can be compressed the write fails;
//! * more pages wait to be compressed than the *backlog* allows: [`Shared::wrote`]. So what a fast writer leaves
//!   uncompressed is bounded, with a limit or without.

use crate::codec::DiskCodec;
use crate::context::{Borrowed, Context, Contexts};
use crate::dictionaries::Dictionaries;
use crate::io_counts::IoCounts;
use crate::machine::Machine;
use crate::wake_up::WakeUp;
use coldpress_codec::CodecKind;
use coldpress_engine::evictor::{EngineSource, Level, Source};
use coldpress_engine::metrics::TaskTimes;
use coldpress_engine::queues::ACTIVE_GENERATIONS;
use coldpress_engine::vmo::Vmos;
use coldpress_engine::{Engine, Place, Reclaimer, Trigger, Tunables};
use coldpress_storage::{AnyStorage, CompressedStorage, StorageKind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub(crate) type DiskVmos = Vmos<Machine, DiskCodec, AnyStorage>;
pub(crate) type DiskEngine = Engine<Machine, DiskCodec, AnyStorage>;

/// Pages that a step compresses at most.
pub(crate) const STEP_PAGES: u64 = 64;

/// A thread that makes room does so for as many pages.
const ROOM_PAGES: u64 = 64;

/// How often a thread that writes looks at tables and backlog: after as many pages.
const LOOK_PAGES: u64 = 64;

/// Bytes that compaction copies for a write that found no room.
const COMPACTED_FOR_ROOM: usize = 16 << 20;

/// The stack of the thread that makes the engine: half a megabyte of tables that a debug build moves about.
const STACK_BYTES: usize = 32 << 20;

pub(crate) struct Shared {
    // In this order: contexts and VMOs are in memory that the machine, or a context itself, unmaps.
    pub(crate) contexts: Contexts,
    pub(crate) vmos: Box<DiskVmos>,
    pub(crate) machine: Machine,
    /// After `vmos`, whose codec refers to them.
    pub(crate) dictionaries: Dictionaries,
    pub(crate) io: IoCounts,
    /// What clients' reads and writes of parts of pages took, and decompressing within.
    pub(crate) times: TaskTimes,
    /// Tells the scanner that there is something to do.
    pub(crate) wake_up: WakeUp,
    backlog_pages: u64,
    written: AtomicU64,
    /// Bytes of tables of whoever uses the disk, which count as the disk's own.
    pub(crate) more_tables: AtomicU64,
}

/// How a disk keeps its pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub(crate) codec: CodecKind,
    pub(crate) storage: StorageKind,
    pub(crate) cold_age: Duration,
    pub(crate) backlog_bytes: u64,
    pub(crate) target_percent: u64,
}

impl Shared {
    /// `None`: no memory.
    pub(crate) fn new(limit_bytes: Option<u64>, ways: &Ways) -> Option<Self> {
        let machine = Machine::new(limit_bytes)?;
        let (codec, storage) = (ways.codec, ways.storage);
        let make = move || {
            Box::new(DiskVmos::new(
                DiskCodec::new(codec),
                AnyStorage::new(storage),
            ))
        };
        let maker = std::thread::Builder::new().stack_size(STACK_BYTES);
        let vmos = maker.spawn(make).ok()?.join().ok()?;
        let shared = Self {
            contexts: Contexts::default(),
            vmos,
            machine,
            dictionaries: Dictionaries::default(),
            io: IoCounts::default(),
            times: TaskTimes::new(),
            wake_up: WakeUp::default(),
            backlog_pages: (ways.backlog_bytes / 4096).max(STEP_PAGES),
            written: AtomicU64::new(0),
            more_tables: AtomicU64::new(0),
        };
        shared.tune(ways);
        Some(shared)
    }

    /// What the calling thread works with inside the engine.
    pub(crate) fn context(&self) -> Borrowed<'_> {
        self.contexts.borrow(&self.machine.waiters)
    }

    pub(crate) fn engine(&self) -> &DiskEngine {
        self.vmos.engine()
    }

    /// Works by these ways, and by the limit as it is now.
    fn tune(&self, ways: &Ways) {
        // A page is active in the newest two generations, so for one to two intervals.
        let interval_ms = (ways.cold_age.as_millis() as u64 * 2 / 3).max(1);
        self.retune(|tunables| {
            tunables.min_aging_interval_ms = interval_ms;
            tunables.max_aging_interval_ms = interval_ms;
            tunables.threshold = ways.target_percent;
        });
    }

    /// Lowers or raises the limit.
    pub(crate) fn set_limit(&self, bytes: Option<u64>) {
        self.machine.frames.set_limit(bytes);
        self.retune(|_| {});
        self.wake_up.ring();
    }

    fn retune(&self, change: impl FnOnce(&mut Tunables)) {
        let mut tunables = self.engine().tunables().load();
        tunables.active_ratio_multiplier = 0;
        // There are no accessed bits to be harvested: not in eleven days.
        tunables.accessed_scan_interval_ms = 1_000_000_000;
        // The scanner begins when a sixteenth of the limit is left, 64 MiB at most.
        let limit_mb = self.machine.frames.limit_bytes().unwrap_or(0) >> 20;
        let begins_mb = (limit_mb / 16).min(64);
        tunables.warning_mb = begins_mb;
        tunables.critical_mb = begins_mb;
        tunables.out_of_memory_mb = 0;
        tunables.debounce_mb = begins_mb.min(1);
        tunables.hysteresis_s = 0;
        change(&mut tunables);
        let configured = self.engine().configure(&tunables);
        debug_assert_eq!(configured, Ok(()));
    }

    /// What the queues offer, for a compressor.
    pub(crate) fn source<'a>(
        &'a self,
        reclaimer: &'a mut Reclaimer<DiskCodec>,
        trigger: Trigger,
    ) -> EngineSource<
        'a,
        Machine,
        DiskCodec,
        AnyStorage,
        impl FnMut(Place) -> bool + use<>,
        impl Fn() -> u64 + use<'a>,
    > {
        EngineSource {
            engine: self.engine(),
            host: &self.machine,
            reclaimer,
            trigger,
            evict: |_| false,
            free: || self.machine.frames.left_for_pages(),
        }
    }

    /// Pages in place that may still be compressed.
    pub(crate) fn waiting_pages(&self) -> u64 {
        let engine = self.engine();
        u64::from(engine.resident_pages()).saturating_sub(engine.failed_pages().into())
    }

    /// Has the limit count what tables take now.
    pub(crate) fn count_tables(&self) {
        self.machine.frames.set_tables(self.table_bytes());
    }

    /// Bytes of all tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        let bytes = self.vmos.metadata_bytes() + self.machine.table_bytes();
        bytes as u64 + self.dictionaries.bytes() + self.more_tables.load(Relaxed)
    }

    /// A page was written: the scanner has something to do, and where too much waits for it the writer helps.
    pub(crate) fn wrote(&self, context: &mut Context) {
        self.wake_up.ring();
        if !self
            .written
            .fetch_add(1, Relaxed)
            .is_multiple_of(LOOK_PAGES)
        {
            return;
        }
        self.count_tables();
        let too_many = self.waiting_pages().saturating_sub(self.backlog_pages);
        if too_many > 0 {
            // More than were written, or it would stay so.
            self.compress(context, (2 * LOOK_PAGES).min(too_many), Trigger::Pressure);
        }
    }

    /// Compresses so many pages, the coldest first, or as many as there are.
    pub(crate) fn compress(&self, context: &mut Context, pages: u64, trigger: Trigger) {
        let mut left = pages;
        self.go_through(context, trigger, |compressed| {
            left = left.saturating_sub(compressed);
            left
        });
    }

    /// Compresses until new pages can have frames again. `false`: nothing was gained, and there are none.
    pub(crate) fn make_room(&self, context: &mut Context) -> bool {
        let frames = &self.machine.frames;
        self.count_tables();
        let mut compressed = 0;
        self.go_through(context, Trigger::Critical, |more| {
            compressed += more;
            ROOM_PAGES.saturating_sub(frames.left_for_pages())
        });
        self.count_tables();
        if frames.left_for_pages() == 0 && self.is_sparse() {
            let done = self.engine().compact(&self.machine, COMPACTED_FOR_ROOM);
            compressed += done.map_or(0, |done| {
                done.frames.saturating_sub(done.frames_taken) as u64
            });
        }
        compressed > 0 || frames.left_for_pages() > 0
    }

    /// Goes through all pages that may be compressed, from the coldest on, as long as some are `wanted`, which is told
    /// how many were compressed since it was asked last.
    fn go_through(
        &self,
        context: &mut Context,
        trigger: Trigger,
        mut wanted: impl FnMut(u64) -> u64,
    ) {
        let engine = self.engine();
        let mut pages = wanted(0);
        for rotations in 0..=ACTIVE_GENERATIONS {
            // Each step takes a page off its queue, at least.
            let most_steps = engine.resident_pages() + 1;
            for _ in 0..most_steps {
                if pages == 0 {
                    return;
                }
                let mut source = self.source(context.reclaimer(), trigger);
                match source.reclaim(Level::IncludeNewest, pages.min(STEP_PAGES)) {
                    Some(freed) => pages = wanted(freed.pages()),
                    None => break,
                }
            }
            if rotations < ACTIVE_GENERATIONS {
                engine.rotate(&self.machine);
            }
        }
    }

    /// Whether the limit leaves room for the counters of a snapshot: 136 bytes for each leaf of 64 pages that has any.
    pub(crate) fn has_room_for_snapshot(&self) -> bool {
        self.count_tables();
        // As if no leaf had any counters yet.
        let bytes = self.engine().metadata().page_lists as u64 / 4;
        self.machine.frames.left_for_pages() > bytes / 4096
    }

    /// Whether storage is worth being compacted: an eighth of it holds nothing, and a MiB.
    pub(crate) fn is_sparse(&self) -> bool {
        let usage = self.engine().storage_usage();
        usage.fragmentation_bytes > (usage.storage_bytes / 8).max(1 << 20)
    }

    /// The kind of storage.
    pub(crate) fn storage_kind(&self) -> StorageKind {
        self.engine().with_storage_locked(|storage| storage.kind())
    }

    /// Checks what must be so while nobody is inside: for tests.
    pub(crate) fn check(&self) {
        self.engine().check_queues();
        self.engine()
            .with_storage_locked(|storage| storage.check_invariants());
    }
}
