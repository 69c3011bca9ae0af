//! What the threads of a cache share, and reading and writing through it.
//!
//! ```text
//!   client ── write ─▶ pages of a VMO, compressed when cold ── write-back (`write_back.rs`) ─▶ backing store
//!     │                     ▲ populate                                                              │  ▲
//!     ├── read ── missing ──┴──────────────────────────── read ◀────────────────────────────────────╯  │
//!     ╰── write, while the pool is full ── through ─────────────────────────────────────────────────────╯
//! ```
//!
//! Locks, in this order; below them are those of the disk:
//!
//! * a *range*: of the 64 pages of a leaf and some others; held while one of them is read, written, written back or
//!   evicted, across input and output. No thread holds two.
//! * the *gate*: shared while something is written to the store, alone while the store is synced. So what a failed sync
//!   was about is known: all that was written before it.
//! * the *table*: for a few words.

use super::counts::CacheCounts;
use super::table::{State, Table};
use crate::backing::{Backing, BackingError, Zeroing};
use crate::disk::Disk;
use crate::error::IoError;
use crate::io_counts::count;
use crate::volume::{Extent, Volume};
use crate::wake_up::WakeUp;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};

pub(crate) const PAGE: u64 = 4096;

/// Pages that one lock is about, and that go to the store at once.
pub(crate) const LEAF_PAGES: u64 = 64;

/// Locks of ranges. A power of two.
const RANGES: usize = 1024;

/// Pages that a look for extents goes over at most.
const EXTENT_PAGES: u64 = 4096;

pub(crate) struct Core {
    pub(crate) disk: Disk,
    pub(crate) backing: Box<dyn Backing>,
    /// Guards state and order of pages; a leaf.
    pub(crate) table: Mutex<Table>,
    /// Each guards what is held of some leaves; above the gate, and held across input and output.
    ranges: Box<[Mutex<()>]>,
    /// Shared by those that write to the store, held alone by a sync; below a range, above the table.
    pub(crate) gate: RwLock<()>,
    /// The limit was reached, and the pool has not come down to the threshold since.
    is_full: AtomicBool,
    accept_threshold_percent: u64,
    /// Something was written past the cache since the last sync: under the gate.
    pub(crate) went_past: AtomicBool,
    /// A sync has failed that was about such writes, and nobody was told.
    pub(crate) owes_error: AtomicBool,
    pub(crate) counts: CacheCounts,
    /// Tells the shrinker that the pool is full.
    pub(crate) wake_up: WakeUp,
}

impl Core {
    pub(crate) fn new(
        disk: Disk,
        backing: Box<dyn Backing>,
        accept_threshold_percent: u64,
    ) -> Self {
        Self {
            disk,
            backing,
            table: Mutex::default(),
            ranges: (0..RANGES).map(|_| Mutex::default()).collect(),
            gate: RwLock::default(),
            is_full: AtomicBool::new(false),
            accept_threshold_percent,
            went_past: AtomicBool::new(false),
            owes_error: AtomicBool::new(false),
            counts: CacheCounts::default(),
            wake_up: WakeUp::default(),
        }
    }

    pub(crate) fn volume(&self) -> &Volume {
        self.disk.volume()
    }

    /// Locks what is held of a page and its neighbours.
    pub(crate) fn range(&self, page: u64) -> MutexGuard<'_, ()> {
        let spread = (page / LEAF_PAGES).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.ranges[(spread >> 48) as usize & (RANGES - 1)].lock()
    }

    /// Whether a page that is not held may be held from now on. Once the limit was reached the pool has to come down to
    /// the threshold first.
    pub(crate) fn accepts(&self) -> bool {
        if !self.is_full.load(Relaxed) {
            return true;
        }
        let frames = &self.volume().shared.machine.frames;
        let accepted = frames.most_for_pages() / 100 * self.accept_threshold_percent;
        let accepts = frames.held_frames() <= accepted;
        if accepts {
            self.is_full.store(false, Relaxed);
        }
        accepts
    }

    /// The limit is another: the shrinker shall see whether the pool is above it.
    pub(crate) fn look_at_limit(&self) {
        self.is_full.store(true, Relaxed);
        self.wake_up.ring();
    }

    /// A page found no room.
    fn note_refused(&self) {
        let has_room = self.volume().shared.machine.frames.left_for_pages() > 0;
        if has_room {
            count(&self.counts.reject_alloc_fail, 1)
        } else {
            count(&self.counts.pool_limit_hit, 1)
        }
        self.look_at_limit();
    }

    /// The page is held in this state from now on.
    fn hold(&self, page: u64, state: State) {
        let bytes = {
            let mut table = self.table.lock();
            table.hold(page as u32, state);
            table.bytes()
        };
        let bytes = bytes + self.backing.memory_bytes();
        self.volume().shared.more_tables.store(bytes, Relaxed);
    }

    /// The page is not held any more. Under its range.
    pub(crate) fn forget(&self, pages: Range<u64>) {
        let length = (pages.end - pages.start) * PAGE;
        let trimmed = self.volume().trim(pages.start * PAGE, length);
        debug_assert_eq!(trimmed, Ok(()), "nothing is above, and it is inside");
        let mut table = self.table.lock();
        pages.for_each(|page| table.remove(page as u32));
    }

    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        for (at, part) in cut(offset, buffer.len() as u64, LEAF_PAGES * PAGE) {
            let buffer = &mut buffer[part];
            let _range = self.range(at / PAGE);
            let mut done = 0;
            while done < buffer.len() {
                done += self.read_some(at + done as u64, &mut buffer[done..])?;
            }
        }
        Ok(())
    }

    /// Reads a page that is held, or as many as are not. How many bytes.
    fn read_some(&self, at: u64, buffer: &mut [u8]) -> Result<usize, IoError> {
        let page = at / PAGE;
        let held = self.table.lock().touch(page as u32);
        if let Some(state) = held {
            let len = ((PAGE - at % PAGE) as usize).min(buffer.len());
            match self.volume().read(at, &mut buffer[..len]) {
                Ok(()) => {
                    count(&self.counts.read_hits, 1);
                    return Ok(len);
                }
                // The store has it, too.
                Err(IoError::Damaged) if state == State::Clean => self.forget(page..page + 1),
                Err(error) => return Err(error),
            }
        }
        self.read_missing(at, buffer)
    }

    /// Reads pages that are not held from the store, and holds them if there is room.
    fn read_missing(&self, at: u64, buffer: &mut [u8]) -> Result<usize, IoError> {
        let first = at / PAGE;
        let end = (at + buffer.len() as u64).div_ceil(PAGE);
        let run = {
            let table = self.table.lock();
            let is_held = |page: &u64| table.get(*page as u32).is_some();
            (first + 1..end).find(is_held).unwrap_or(end) - first
        };
        let mut pages = vec![0; (run * PAGE) as usize];
        self.read_backing(first, &mut pages)?;
        count(&self.counts.read_misses, run);
        let start = (at % PAGE) as usize;
        let len = buffer.len().min(pages.len() - start);
        buffer[..len].copy_from_slice(&pages[start..][..len]);
        for (page, content) in (first..).zip(pages.chunks(PAGE as usize)) {
            self.populate(page, content);
        }
        Ok(len)
    }

    fn populate(&self, page: u64, content: &[u8]) {
        // What a store of zeros has none of costs no row of the table.
        let is_nothing = || !self.backing.outlives() && content.iter().all(|&byte| byte == 0);
        if !self.accepts() || is_nothing() {
            return;
        }
        match self.volume().write(page * PAGE, content) {
            Ok(()) => self.hold(page, State::Clean),
            Err(_) => self.note_refused(),
        }
    }

    fn read_backing(&self, page: u64, pages: &mut [u8]) -> Result<(), IoError> {
        self.backing.read(page * PAGE, pages).map_err(|error| {
            count(&self.counts.backing_read_errors, 1);
            IoError::Backing(error)
        })
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        for (at, part) in cut(offset, data.len() as u64, PAGE) {
            let _range = self.range(at / PAGE);
            self.write_piece(at, &data[part])?;
        }
        Ok(())
    }

    /// Writes a page, or a part of one: to the pool, or to the store.
    fn write_piece(&self, at: u64, piece: &[u8]) -> Result<(), IoError> {
        let page = at / PAGE;
        let mut held = self.table.lock().touch(page as u32);
        loop {
            if held.is_none() && !self.accepts() {
                break;
            }
            match self.write_to_pool(at, piece, held) {
                Ok(()) => {
                    if held != Some(State::Dirty) {
                        self.backing.overwritten(page * PAGE, PAGE);
                    }
                    self.hold(page, State::Dirty);
                    return Ok(());
                }
                Err(IoError::NoSpace) => {
                    self.note_refused();
                    break;
                }
                Err(IoError::Damaged) if held == Some(State::Clean) => {
                    self.forget(page..page + 1);
                    held = None;
                }
                Err(error) => return Err(error),
            }
        }
        self.write_through(at, piece, held)
    }

    fn write_to_pool(&self, at: u64, piece: &[u8], held: Option<State>) -> Result<(), IoError> {
        if held.is_some() || piece.len() as u64 == PAGE {
            return self.volume().write(at, piece);
        }
        let content = self.merged(at, piece, None)?;
        self.volume().write(at / PAGE * PAGE, &content)
    }

    /// The page of which a part is written, as it will be.
    fn merged(
        &self,
        at: u64,
        piece: &[u8],
        held: Option<State>,
    ) -> Result<[u8; PAGE as usize], IoError> {
        let (page, start) = (at / PAGE, (at % PAGE) as usize);
        let mut content = [0; PAGE as usize];
        if piece.len() < content.len() {
            match held {
                Some(_) => self.volume().read(page * PAGE, &mut content)?,
                None => self.read_backing(page, &mut content)?,
            }
        }
        content[start..][..piece.len()].copy_from_slice(piece);
        Ok(content)
    }

    /// Writes past the pool. What is held of the page goes when the store has the new content, and stays if not.
    fn write_through(&self, at: u64, piece: &[u8], held: Option<State>) -> Result<(), IoError> {
        let page = at / PAGE;
        let content = self.merged(at, piece, held)?;
        self.past(page..page + 1, |backing| {
            backing.write(page * PAGE, &content)
        })?;
        count(&self.counts.written_through_pages, 1);
        if held.is_some() {
            self.forget(page..page + 1);
        }
        Ok(())
    }

    /// Changes these pages of the store past the pool. Under their range.
    fn past(
        &self,
        pages: Range<u64>,
        change: impl FnOnce(&dyn Backing) -> Result<(), BackingError>,
    ) -> Result<(), IoError> {
        let changed = {
            let _gate = self.gate.read();
            self.went_past.store(true, SeqCst);
            change(&*self.backing)
        };
        changed.map_err(|error| {
            count(&self.counts.backing_write_errors, 1);
            self.distrust(pages);
            IoError::Backing(error)
        })
    }

    /// The store may hold anything there: what is held of these pages nobody else has. Under their range.
    fn distrust(&self, pages: Range<u64>) {
        // A tier that refuses has changed nothing: a page that can leave memory shall not have to stay.
        if !self.backing.outlives() {
            return;
        }
        let is_concerned = |page: &u64| {
            let state = self.table.lock().get(*page as u32);
            state.is_some_and(|state| state != State::Dirty)
        };
        for page in pages.filter(is_concerned) {
            // As of each page that becomes dirty.
            self.backing.overwritten(page * PAGE, PAGE);
            self.table.lock().become_(page as u32, State::Dirty);
        }
    }

    /// Has whole pages read as zeros: in the store at once, and not held.
    pub(crate) fn zero(&self, pages: Range<u64>, zeroing: Zeroing) -> Result<(), IoError> {
        if pages.start >= pages.end {
            return Ok(());
        }
        let (offset, length) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
        for (at, part) in cut(offset, length, LEAF_PAGES * PAGE) {
            let _range = self.range(at / PAGE);
            let length = part.len() as u64;
            let pages = at / PAGE..(at + length) / PAGE;
            self.past(pages.clone(), |backing| backing.zero(at, length, zeroing))?;
            self.forget(pages);
            count(&self.counts.trimmed_pages, length / PAGE);
        }
        Ok(())
    }

    /// How far pages are alike.
    pub(crate) fn extent(&self, offset: u64, length: u64) -> (u64, Extent) {
        if self.backing.outlives() {
            // What such a store has a hole of held zeros when this was asked.
            return self.extent_now(offset, length);
        }
        // Between the two being asked a page may come to be held, and the store forget its own: it would be in neither.
        let mut answer = None;
        let most = length.min(EXTENT_PAGES * PAGE);
        for (at, part) in cut(offset, most, LEAF_PAGES * PAGE) {
            let _range = self.range(at / PAGE);
            let (bytes, kind) = self.extent_now(at, part.len() as u64);
            if answer.is_some_and(|(_, alike)| alike != kind) {
                break;
            }
            answer = Some((part.start as u64 + bytes, kind));
            if bytes < part.len() as u64 {
                break;
            }
        }
        answer.unwrap_or((length, Extent::Data))
    }

    fn extent_now(&self, offset: u64, length: u64) -> (u64, Extent) {
        let first = offset / PAGE;
        let end = (offset + length).div_ceil(PAGE).min(first + EXTENT_PAGES);
        let (is_held, alike) = {
            let table = self.table.lock();
            let is_held = |page: u64| table.get(page as u32).is_some();
            let held = is_held(first);
            let other = (first + 1..end).find(|&page| is_held(page) != held);
            (held, other.unwrap_or(end))
        };
        let (pages_end, kind) = if is_held {
            (alike * PAGE, Extent::Data)
        } else {
            match self.backing.extent(first * PAGE, (alike - first) * PAGE) {
                (bytes, true) => (first * PAGE + bytes, Extent::Hole),
                (bytes, false) => (first * PAGE + bytes, Extent::Data),
            }
        };
        (pages_end.min(offset + length) - offset, kind)
    }
}

/// Cuts `length` bytes from `offset` on at multiples of `unit`: where each begins, and which bytes it is.
fn cut(offset: u64, length: u64, unit: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done;
        let from = done;
        done = length.min(done + unit - at % unit);
        (from < done).then_some((at, from as usize..done as usize))
    })
}
