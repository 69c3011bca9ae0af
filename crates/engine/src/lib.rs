//! Memory compression as RFC-0219 describes it: page lists with markers, page queues with
//! ageing, the compression and decompression protocol, accounting.
//!
//! The engine does no input or output, reads no clock, starts no thread and allocates nothing
//! on a fault; whatever it needs of the machine it asks of a [`Host`]. A kernel can be one; the
//! Linux runtime of Coldpress is one, in which taking a page away is `UFFDIO_MOVE` and giving
//! one back is `UFFDIO_COPY`.
//!
//! # Glossary
//!
//! * **VMO**: a range of anonymous memory with a *page list* ([`page_list`](pages::page_list)).
//! * **segment**: 32 MiB of a page list. A host that maps fixed windows uses segments directly.
//! * **page list entry**: 64 bits; the low three tell the type ([`entry`](pages::entry)).
//! * **page**: here the record of a page that holds content in place ([`page`](pages::page)); the bytes
//!   belong to the host.
//! * **frame**: 4 KiB that compressed storage is made of.
//! * **staging slot**: 4 KiB owned by the compressor, into which the host takes a page out.
//! * **temporary reference**: the entry of a page while it is compressed; names its slot.
//! * **compressed reference**: the entry of a page held by compressed storage.
//! * **request**: the entry of a page while one worker restores it.
//! * **worker**: a thread that answers faults, or the one that reclaims; each owns a
//!   workspace with a spare page (`worker.rs`).
//! * **stable section**: while a [`Host::Stable`] guard lives, the host delivers no change of
//!   the address space ([`change`]).
//! * **content**, **committed**: remembered in any form; held in pages.
//!
//! # Locks
//!
//! In this order, each optional: stable section (shared) → one VMO lock → queue lock or storage
//! lock (leaves, never both). Never two VMO locks. Debug builds check it ([`lock`]). No codec runs under any lock; a toucher never
//! waits for a codec that compresses. A fault takes the storage lock only to free.
//!
//! Compaction holds the storage lock and asks for VMO locks that it can have without waiting
//! ([`compact`](Engine::compact)).
//!
//! What stays compressed for long may be stored anew, denser, while everybody else goes on
//! ([`recode`](Engine::recode)).
//! # Rooms
//!
//! Each knows those above it in the table.
//!
//! | room | holds |
//! |---|---|
//! | [`machine`] | what the engine asks of the machine: [`Host`], [`Memory`]; ranked locks; budgets of frames |
//! | [`figures`] | what a figure is, and the table of counters |
//! | [`pages`] | page list entries, page lists and their tables, page records, page queues |
//! | [`compression`] | the protocol: out, back, and what is done with content that is away |
//! | [`vm`] | for hosts that own their pages: VMOs, evictor, pressure, queries |
#![no_std]
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod compression;
pub mod figures;
pub mod machine;
pub mod pages;
pub mod vm;

pub use compression::{change, fork, harvest, tunables};
pub use figures::counters;
pub use machine::{domain_frames, frame_budget, freed_frames, lock};
pub use pages::{interval, queues};
pub use vm::{caretaker, evictor, metrics, pressure, vmo};

pub use compression::compress::{Batch, Reclaimer};
pub use compression::fault::FaultOutcome;
pub use compression::fork::Content;
pub use compression::metadata::Metadata;
pub use compression::read_ahead::Expected;
pub use compression::recode::{Recoded, Recoder, RecoderRoom, Search};
pub use compression::stored::HEADER_BYTES;
pub use compression::tunables::{TunableError, Tunables};
pub use compression::worker::{Worker, Workspace};
pub use compression::write_back::WrittenBack;
pub use figures::cause::Trigger;
pub use figures::counters::Counters;
pub use machine::host::{Access, Doubt, Host, Installed, StagingSlot, Taken};
pub use machine::memory::{Memory, Place};
pub use machine::protocol::Protocol;
pub use pages::entry::{Entry, Whereabouts};
pub use pages::queues::{Ageing, Pace};
pub use pages::tables::Growth;

use coldpress_codec::{Page, PageCodec};
use coldpress_storage::CompressedStorage;
use compression::{read_ahead, wake};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use lock::{HeldRanks, Lock, rank};
use pages::queues::PageQueues;
use pages::tables::Tables;

/// Names a segment of an engine; 0 is never one.
pub type SegmentId = u32;

/// Index of a page in its segment.
pub type PageIndex = u32;

/// Pages in a segment: 32 MiB.
pub const SEGMENT_PAGES: u32 = 8192;

/// Pages in a leaf of a page list, and the most that one reclaim run takes out.
pub const LEAF_PAGES: u32 = 64;

/// Threads that can be workers of one engine.
pub const MAX_WORKERS: usize = 256;

/// Workers, those with the lowest ids, that can restore neighbours together.
const RUN_WORKERS: u16 = 65;

/// Targets: one for each worker, and one for each page of a run of those that restore runs.
const TARGETS: usize = MAX_WORKERS + RUN_WORKERS as usize * compression::restore::RUN_PAGES;

/// Staging slots of one engine.
pub const STAGING_SLOTS: usize = 1024;

/// Where the content that a worker restores belongs. Changed only while no stable section is
/// open; read inside one.
#[derive(Default)]
struct Target {
    place: Backlink,
    /// The content is no longer wanted: the page was freed meanwhile.
    cancelled: AtomicBool,
    /// The entry that the request stands for, encoded; the request itself where the worker's spare page has the
    /// content. Written under the VMO's lock, before the entry becomes a request.
    held: AtomicU64,
    /// The worker's spare page.
    spare: AtomicPtr<Page>,
}

/// Where a page belongs.
#[derive(Default)]
struct Backlink {
    segment: AtomicU32,
    index: AtomicU32,
}

impl Backlink {
    const fn none() -> Self {
        Self {
            segment: AtomicU32::new(0),
            index: AtomicU32::new(0),
        }
    }

    /// Where the page belongs; without a lock it may be on the move, and the answer be half of
    /// each: look again with the lock held.
    fn get(&self) -> Place {
        (self.segment.load(Relaxed), self.index.load(Relaxed))
    }

    /// Under the lock of the page's VMO.
    fn set(&self, (segment, index): Place) {
        self.segment.store(segment, Relaxed);
        self.index.store(index, Relaxed);
    }
}

/// The engine: all VMOs of one security domain and their compressed storage.
pub struct Engine<H: Host, C: PageCodec, S: CompressedStorage> {
    codec: C,
    tables: Tables<H::RawLock>,
    queues: PageQueues<H::RawLock>,
    /// Guards the packing of compressed storage; a leaf of the order, never held over a codec
    /// or a copy.
    storage: Lock<H::RawLock, S, { rank::LEAF }>,
    targets: [Target; TARGETS],
    backlinks: [Backlink; STAGING_SLOTS],
    /// Objects that storage has allocated and that stand in no entry yet. Raised under the
    /// storage lock.
    unpublished: AtomicU32,
    counters: Counters,
    /// What is set; each value by itself, none guarded by a lock.
    tunables: tunables::Cells,
    /// Where faults are expected; words by themselves, none guarded by a lock.
    streams: read_ahead::Streams,
    /// When programs woke; words by themselves, none guarded by a lock.
    bursts: wake::Bursts,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// An engine without segments.
    pub const fn new(codec: C, storage: S) -> Self {
        Self {
            codec,
            tables: Tables::new(),
            queues: PageQueues::new(),
            storage: Lock::new(storage),
            targets: [const {
                Target {
                    place: Backlink::none(),
                    cancelled: AtomicBool::new(false),
                    held: AtomicU64::new(0),
                    spare: AtomicPtr::new(core::ptr::null_mut()),
                }
            }; TARGETS],
            backlinks: [const { Backlink::none() }; STAGING_SLOTS],
            unpublished: AtomicU32::new(0),
            counters: Counters::new(),
            tunables: tunables::Cells::new(),
            streams: read_ahead::Streams::new(),
            bursts: wake::Bursts::new(),
        }
    }

    /// The engine's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Creates a segment of [`SEGMENT_PAGES`] empty pages, or `None` where there is no memory.
    pub fn create_segment(&self, host: &H) -> Option<SegmentId> {
        self.tables.create_segment(host)
    }

    /// Reclaim has taken a page of this segment away. Under its lock.
    pub(crate) fn count_reclaimed(&self, segment: SegmentId) {
        if let Some(account) = self.tables.account_of(self.tables.segment(segment)) {
            account.reclaimed();
        }
    }

    /// Opens a stable section of the host. No lock of the engine is held.
    pub(crate) fn stable<'h>(&self, host: &'h H) -> H::Stable<'h> {
        lock::assert_none_held::<H::RawLock>();
        host.stable()
    }

    /// Lets the host deliver changes. No lock of the engine is held.
    pub(crate) fn let_changes_in(&self, host: &H) {
        lock::assert_none_held::<H::RawLock>();
        host.let_changes_in();
    }

    /// What storage holds at this moment.
    pub fn storage_usage(&self) -> coldpress_storage::Usage {
        self.storage.lock().usage()
    }

    /// Runs `act` while nobody allocates or frees storage: for a host that gives free frames
    /// back to where it has them from, or that chooses the kind of storage before its first use.
    pub fn with_storage_locked<T>(&self, act: impl FnOnce(&mut S) -> T) -> T {
        act(&mut self.storage.lock())
    }

    /// The codec.
    pub fn codec(&self) -> &C {
        &self.codec
    }

    /// Bytes of tables that the engine has touched, storage's own included.
    pub fn metadata_bytes(&self) -> usize {
        self.metadata().total()
    }

    /// The same, by kind of table.
    pub fn metadata(&self) -> Metadata {
        let tables = self.tables.touched();
        Metadata {
            page_lists: tables.page_lists,
            counters: tables.counts,
            records: self.queues.touched_bytes(),
            accounts: tables.accounts,
            storage: self.storage.lock().usage().metadata_bytes,
        }
    }

    /// Pages with a record: resident and tracked.
    pub fn resident_pages(&self) -> u32 {
        self.queues.records_in_use()
    }

    /// Frees every lock. For the child of a fork, in which the threads that may have held them
    /// do not exist.
    ///
    /// # Safety
    /// No other thread exists that uses this engine, and none was inside a section that changes
    /// it at the moment of the fork (see [`fork`]).
    pub unsafe fn reset_locks_after_fork(&self) {
        if let Some(held) = <H::RawLock as HeldRanks>::held() {
            held.store(0, Relaxed);
        }
        // SAFETY: as the caller promises.
        unsafe {
            self.tables.reset_locks();
            self.queues.reset();
            self.storage.reset();
        }
        // Only what has to be written is: most targets lie in memory that was never touched.
        for target in &self.targets {
            if target.cancelled.load(Relaxed) {
                target.cancelled.store(false, Relaxed);
            }
        }
    }
}
