//! A disk with its snapshots and its scanner.

use crate::error::{CreateError, SnapshotError};
use crate::frames::Idle;
use crate::recompress::Recompressed;
use crate::scanner::Scanner;
use crate::shared::{Shared, Ways};
use crate::statistics::Statistics;
use crate::volume::Volume;
use coldpress_codec::CodecKind;
use coldpress_engine::Trigger;
use coldpress_engine::queues::ACTIVE_GENERATIONS;
use coldpress_engine::vmo::MAX_PAGES;
use coldpress_storage::StorageKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const PAGE_BYTES: u64 = 4096;

/// The least memory limit: what is kept for storage, and tables, must have room in it.
pub const LEAST_LIMIT_BYTES: u64 = 4 << 20;

/// How a disk is made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Its size: a multiple of 4096.
    pub size_bytes: u64,
    /// The most memory that frames and tables may take; `None`: as much as there is.
    pub limit_bytes: Option<u64>,
    /// How pages are compressed. [`CodecKind::best`].
    pub codec: CodecKind,
    /// How compressed pages are packed. [`StorageKind::default`].
    pub storage: StorageKind,
    /// Pages that were not written for this long are compressed.
    pub cold_age: Duration,
    /// So much may wait to be compressed; beyond it, those that write compress.
    pub backlog_bytes: u64,
    /// A page is stored if its compressed form, its header included, takes so much of a page at most, in per cent, 1 to
    /// 100; else it stays as it is.
    pub target_percent: u64,
    /// Whether the disk cannot be written.
    pub read_only: bool,
}

impl Options {
    /// A disk of this size, all else as it is by default.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            limit_bytes: None,
            codec: CodecKind::best(),
            storage: StorageKind::default(),
            cold_age: Duration::from_secs(1),
            backlog_bytes: 32 << 20,
            target_percent: 90,
            read_only: false,
        }
    }
}

/// A compressed RAM disk.
///
/// ```
/// use coldpress_disk::{Disk, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk = Disk::new(&Options::new(64 << 20))?;
/// disk.volume().write(4096, b"some bytes")?;
/// let before = disk.snapshot("before")?;
/// disk.volume().write(4096, b"others now")?;
/// let mut bytes = [0; 10];
/// before.read(4096, &mut bytes)?;
/// assert_eq!(&bytes, b"some bytes");
/// disk.drop_snapshot("before")?;
/// # Ok(())
/// # }
/// ```
pub struct Disk {
    // The scanner first: it ends before anything else does.
    _scanner: Scanner,
    volume: Volume,
    /// Guards the names; held while a snapshot is made or ends.
    snapshots: Mutex<BTreeMap<String, Volume>>,
}

impl Disk {
    /// Makes a disk, all zeros.
    ///
    /// # Errors
    /// The size or the limit cannot be, or there is no memory for the first tables.
    pub fn new(options: &Options) -> Result<Self, CreateError> {
        let size = options.size_bytes;
        if size == 0 || !size.is_multiple_of(PAGE_BYTES) || size / PAGE_BYTES > MAX_PAGES {
            return Err(CreateError::Size);
        }
        if options
            .limit_bytes
            .is_some_and(|limit| limit < LEAST_LIMIT_BYTES)
        {
            return Err(CreateError::Limit);
        }
        let ways = Ways {
            codec: options.codec,
            storage: options.storage,
            cold_age: options.cold_age,
            backlog_bytes: options.backlog_bytes,
            target_percent: options.target_percent.clamp(1, 100),
        };
        let shared = Shared::new(options.limit_bytes, &ways).ok_or(CreateError::NoMemory)?;
        let vmo = shared.vmos.create(&shared.machine, size / PAGE_BYTES);
        let vmo = vmo.map_err(|_| CreateError::NoMemory)?;
        let shared = Arc::new(shared);
        Ok(Self {
            _scanner: Scanner::start(&shared).ok_or(CreateError::NoMemory)?,
            volume: Volume {
                shared,
                vmo,
                size_bytes: size,
                read_only: options.read_only,
            },
            snapshots: Mutex::default(),
        })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.volume.shared
    }

    /// The disk itself.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Makes a snapshot: the disk as it is now, read-only. Takes time in proportion to what was written since the last
    /// one, and memory in proportion to what is written from now on.
    ///
    /// # Errors
    /// There is one of the name, or no memory for its tables.
    pub fn snapshot(&self, name: &str) -> Result<Volume, SnapshotError> {
        let mut snapshots = self.snapshots.lock();
        if snapshots.contains_key(name) {
            return Err(SnapshotError::Exists(name.to_owned()));
        }
        let shared = self.shared();
        let pages = self.volume.size_bytes / PAGE_BYTES;
        if !shared.has_room_for_snapshot() {
            return Err(SnapshotError::NoRoom);
        }
        let vmo = shared
            .vmos
            .snapshot(&shared.machine, self.volume.vmo, 0..pages)
            .map_err(|_| SnapshotError::NoRoom)?;
        let volume = Volume {
            vmo,
            read_only: true,
            ..self.volume.clone()
        };
        snapshots.insert(name.to_owned(), volume.clone());
        Ok(volume)
    }

    /// The snapshot of this name.
    pub fn find_snapshot(&self, name: &str) -> Option<Volume> {
        self.snapshots.lock().get(name).cloned()
    }

    /// Names of all snapshots.
    pub fn snapshots(&self) -> Vec<String> {
        self.snapshots.lock().keys().cloned().collect()
    }

    /// Ends a snapshot. What only it held is freed; volumes of it that somebody still has fail from now on.
    ///
    /// # Errors
    /// There is none of the name.
    pub fn drop_snapshot(&self, name: &str) -> Result<(), SnapshotError> {
        let mut snapshots = self.snapshots.lock();
        let Some(volume) = snapshots.remove(name) else {
            return Err(SnapshotError::Unknown(name.to_owned()));
        };
        let shared = self.shared();
        let ended = shared.vmos.destroy(&shared.machine, volume.vmo);
        debug_assert_eq!(ended, Ok(()), "nothing is pinned");
        shared.wake_up.ring();
        Ok(())
    }

    /// What it holds, and what it has done.
    pub fn statistics(&self) -> Statistics {
        self.shared().statistics(self.volume.size_bytes)
    }

    /// Lets the highest value of memory begin anew (zram: a 0 written to `mem_used_max`).
    pub fn forget_peak(&self) {
        self.shared().machine.frames.forget_peak();
    }

    /// Changes the memory limit. What is held already stays, and is compressed as far as it can be; as long as it is
    /// more, writes fail that need a page.
    ///
    /// # Errors
    /// The limit is below [`LEAST_LIMIT_BYTES`].
    pub fn set_limit(&self, bytes: Option<u64>) -> Result<(), CreateError> {
        if bytes.is_some_and(|bytes| bytes < LEAST_LIMIT_BYTES) {
            return Err(CreateError::Limit);
        }
        self.shared().set_limit(bytes);
        Ok(())
    }

    /// Marks all pages as idle, however young: those that compress are compressed at once.
    pub fn mark_idle(&self) {
        let shared = self.shared();
        for _ in 0..ACTIVE_GENERATIONS {
            shared.engine().rotate(&shared.machine);
        }
        shared.wake_up.ring();
    }

    /// Compresses all that is not compressed yet, in this thread, and waits for what the scanner is at.
    pub fn settle(&self) {
        let shared = self.shared();
        let mut context = shared.context();
        shared.compress(&mut context, u64::MAX, Trigger::Eager);
        shared.machine.wait_for_staging();
    }

    /// Moves stored pages together, so that frames become free, and gives all idle frames back to the kernel. How many
    /// frames storage holds less.
    pub fn compact(&self) -> u64 {
        self.shared().compact_all()
    }

    /// Stores all that is stored anew, denser, in this thread (zram's `recompress`): by zstd with a dictionary that is
    /// trained from the disk's own pages. Only where the codec is press or zstd.
    pub fn recompress(&self) -> Recompressed {
        self.shared().recompress()
    }

    /// Forgets everything: snapshots, content, and figures of input and output.
    pub fn reset(&self) {
        for name in self.snapshots() {
            // Another thread may have dropped it meanwhile.
            let _ = self.drop_snapshot(&name);
        }
        let shared = self.shared();
        let pages = self.volume.size_bytes / PAGE_BYTES;
        let forgotten = shared.vmos.zero(&shared.machine, self.volume.vmo, 0..pages);
        debug_assert_eq!(
            forgotten,
            Ok(()),
            "no marker is needed where nothing is above"
        );
        shared.machine.wait_for_staging();
        shared.io.begin_anew();
        shared.machine.frames.give_back(Idle::All);
        shared.count_tables();
        shared.machine.frames.forget_peak();
    }

    /// Checks the invariants of queues and storage: for tests.
    ///
    /// # Panics
    /// If one is broken.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.shared().check();
    }
}
