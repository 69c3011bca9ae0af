//! Pages written back: the tier below memory, of which `coldpress-tier` is the log and the engine's stubs name the
//! records.
//!
//! `coldpress run --writeback` opens the file, takes its name away, and lets the program inherit the descriptor. Of one
//! run one process writes: the first, or what it has become, as long as it has no children then. Its forked children
//! read what it had written, by their copies of tables and key, and write nothing.
//!
//! ```text
//!              reclaim thread            handlers, hooks of a fork            child of a fork
//!   tables     put, remove (lock)        locate, remove (lock)                its own copy, its own lock
//!   key        seals and opens           opens                                opens
//!   file       writes, discards          reads                                reads
//! ```
//!
//! Invariants:
//! * T1 The key is made from the kernel's random numbers once in a process's life, and seals in that process alone: a
//!   child has left `WRITES` before its code runs, and nothing brings it back there. So no nonce is used twice.
//! * T2 What a child may read is not written again: before a fork all that is on the device is *kept*, until no copy of
//!   this process reads. Each that does has a lock on `READERS`, which ends with its pager. A copy that is on its way
//!   to that is counted in words that all share: as begun, before it is made, and as locked, when it has its lock. Both
//!   only rise, so that one that was locked, looked at and ended cannot hide another that began meanwhile. A fork that
//!   failed, and a copy that was killed on its way, are begun and never locked. So it is also over when no copy of this
//!   process is left, which the *witness* tells: a page that is never written again, and which each copy shares. After
//!   an `exec` the words are gone: a file that holds anything then is not written to.
//! * T3 The lock guards the tables for a few stores, or the copying of one record, a leaf. It is not held across input,
//!   output, a cipher or a codec.
//! * T4 A fault reads with memory of its own thread's stack.
//!
//! Deliberately not here: when what is written back (`reclaim/write_back.rs`), and files by name.

use crate::machine::linux::Linux;
use crate::machine::message;
use crate::machine::os::{LockKind, Os, PopulatedPages};
use crate::machine::ranked_lock::RankedLock;
use crate::machine::ranks;
use crate::machine::{late::Late, os::FileError};
use crate::memory::areas::Area;
use crate::memory::own::Memory;
use crate::settings::config::WriteBackFile;
use coldpress_engine::figures::latency::Latency;
use coldpress_linux::filter::WriteBack;
use coldpress_tier::{
    Access, Counts, Device, DeviceError, Handle, Key, Opener, Records, Refused, SEAL_BYTES,
    Segment, Slot, Writer, read,
};
use coldpress_uffd::PAGE_SIZE;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// There is no file, or it is not used any more: nothing is written back.
const OFF: u32 = 0;
/// This process writes and reads.
const WRITES: u32 = 1;
/// This process is a child, and reads what its parent had written.
const READS: u32 = 2;

/// The byte of the file that is locked by who writes.
const WRITER: u64 = 0;
/// The byte of the file that is locked by those who only read.
const READERS: u64 = 1;

/// The table of records has a row for so many bytes of the file: compressed pages are longer, on average.
const BYTES_OF_A_ROW: u64 = 1024;
/// After a refusal it is tried again so much later.
const FULL_REST_NS: u64 = 50_000_000;
const ERROR_REST_NS: u64 = 1_000_000_000;
/// How often it is looked whether readers have ended.
const KEEP_LOOK_NS: u64 = 100_000_000;
/// No copy is left when the witness has said so in so many looks: while the kernel moves a page, or swaps pages in, it
/// may say so though one is.
const LOOKS_WITHOUT_COPY: u32 = 10;

type TablesLock<O> = lock_api::Mutex<RankedLock<{ ranks::LEAF }, O>, Option<Records<'static>>>;

/// What is below memory.
pub struct Tier<O: Os = Linux> {
    state: AtomicU32,
    /// The descriptor: the same number in the program's table and in the pager's.
    file: AtomicI32,
    /// Which file that must be: device and inode.
    identity: [AtomicU64; 2],
    records: TablesLock<O>,
    opener: Late<Opener>,
    /// The reclaim thread's (T1).
    writer: UnsafeCell<Option<Writer<'static>>>,
    /// Words that this process and all copies of it share: how many copies were begun that will read, and how many of
    /// them have had their lock, or did without.
    shared: AtomicPtr<[AtomicU32; 2]>,
    /// Whether this process, a copy, has its lock.
    locked: AtomicBool,
    /// The page that every copy of this process shares; 0: there is none.
    witness: AtomicUsize,
    looks_without_copy: AtomicU32,
    /// Nothing is written before this time.
    again_ns: AtomicU64,
    looked_ns: AtomicU64,
    /// Reasons that were said, a bit each.
    said: AtomicU32,
    /// How long it took to read a record and to open it.
    pub(crate) latency: Latency,
}

// SAFETY: the writer is used by the reclaim thread alone, and made before that runs.
unsafe impl<O: Os> Sync for Tier<O> {}

/// The tables, whoever asks.
struct Tables<'a, O: Os>(&'a TablesLock<O>);

impl<O: Os> Access<'static> for Tables<'_, O> {
    fn with<T>(&mut self, act: impl FnOnce(&mut Records<'static>) -> T) -> T {
        let mut records = self.0.lock();
        act(records
            .as_mut()
            .expect("made before anything is stored in it"))
    }
}

/// The file.
struct File<O>(i32, PhantomData<fn() -> O>);

impl From<FileError> for DeviceError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::NoSpace => DeviceError::NoSpace,
            FileError::Io => DeviceError::Io,
        }
    }
}

impl<O: Os> Device for File<O> {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError> {
        Ok(O::read_file(self.0, offset, into)?)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, DeviceError> {
        Ok(O::write_file(self.0, offset, bytes)?)
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), DeviceError> {
        Ok(O::discard_of_file(self.0, offset, length)?)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Where the parts of the tier's memory lie in its area.
struct Layout {
    rows: usize,
    segments: usize,
    segments_at: usize,
    buffer_at: usize,
    scratch_at: usize,
    witness_at: usize,
    bytes: usize,
}

impl Layout {
    fn of(file_bytes: u64, segment_bytes: usize, most_bytes: usize) -> Option<Self> {
        let segments = usize::try_from(file_bytes / segment_bytes as u64).ok()?;
        let rest = segments * size_of::<Segment>() + 3 * segment_bytes + 2 * PAGE_SIZE;
        let most_rows = most_bytes.checked_sub(rest)? / size_of::<Slot>();
        let rows = most_rows.min((file_bytes / BYTES_OF_A_ROW) as usize + 1);
        let segments_at = (rows * size_of::<Slot>()).next_multiple_of(64);
        let buffer_at = (segments_at + segments * size_of::<Segment>()).next_multiple_of(PAGE_SIZE);
        let scratch_at = buffer_at + segment_bytes;
        let witness_at = (scratch_at + segment_bytes).next_multiple_of(PAGE_SIZE);
        let is_enough = rows > 1 && segments >= 4;
        is_enough.then_some(Self {
            rows,
            segments,
            segments_at,
            buffer_at,
            scratch_at,
            witness_at,
            bytes: witness_at + PAGE_SIZE,
        })
    }
}

impl<O: Os> Tier<O> {
    /// Nothing below memory.
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(OFF),
            file: AtomicI32::new(-1),
            identity: [const { AtomicU64::new(0) }; 2],
            records: lock_api::Mutex::const_new(lock_api::RawMutex::INIT, None),
            opener: Late::new(),
            writer: UnsafeCell::new(None),
            shared: AtomicPtr::new(core::ptr::null_mut()),
            locked: AtomicBool::new(false),
            witness: AtomicUsize::new(0),
            looks_without_copy: AtomicU32::new(0),
            again_ns: AtomicU64::new(0),
            looked_ns: AtomicU64::new(0),
            said: AtomicU32::new(0),
            latency: Latency::new(),
        }
    }

    /// Whether this process writes back.
    pub fn writes(&self) -> bool {
        self.state.load(Acquire) == WRITES
    }

    /// What this process does with pages below memory.
    pub fn write_back(&self) -> WriteBack {
        match self.state.load(Acquire) {
            OFF => WriteBack::None,
            WRITES => WriteBack::Writes,
            _ => WriteBack::Reads,
        }
    }

    /// Whether anything of this process may be below memory.
    pub fn is_used(&self) -> bool {
        self.state.load(Acquire) != OFF
    }

    /// Begins to write to `file`, in a process that has no children; where it had begun before, it goes on. `false`:
    /// there is no memory for tables.
    ///
    /// # Safety
    /// By the pager's first thread, in whose table of descriptors the file is, before any other of its threads exists.
    pub unsafe fn begin(&self, file: WriteBackFile, memory: &Memory<O>) -> bool {
        let is_there = O::identity_of_file(file.descriptor) == Some(file.identity);
        if !is_there {
            self.end();
        }
        // It goes on, or it has ended, or this is a copy of a process that has begun.
        if !is_there || self.opener.get().is_some() {
            return true;
        }
        let is_read = O::has_children()
            || O::is_file_locked(file.descriptor, READERS)
            || O::has_content(file.descriptor);
        if is_read || !O::lock_file(file.descriptor, WRITER, LockKind::Exclusive) {
            self.say_once(NOT_ALONE);
            return true;
        }
        let most_bytes = memory.areas.most(Area::WriteBack);
        let Some(layout) = Layout::of(file.bytes, O::SEGMENT_BYTES, most_bytes) else {
            return false;
        };
        let mut random = [0; 32];
        let shared = O::shared_words();
        if shared.is_null()
            || !memory.areas.grow(Area::WriteBack, layout.bytes)
            || !O::fill_random(&mut random)
        {
            return false;
        }
        let base = memory.areas.start(Area::WriteBack);
        // SAFETY: zeroed memory of our own that stays, cut into parts that do not overlap; rows of zeros are the
        // default ones, as `coldpress-tier` says. Nobody else has it: this is the first time.
        let (rows, segments, buffer, scratch) = unsafe {
            (
                core::slice::from_raw_parts_mut(base as *mut Slot, layout.rows),
                core::slice::from_raw_parts_mut(
                    (base + layout.segments_at) as *mut Segment,
                    layout.segments,
                ),
                core::slice::from_raw_parts_mut(
                    (base + layout.buffer_at) as *mut u8,
                    O::SEGMENT_BYTES,
                ),
                core::slice::from_raw_parts_mut(
                    (base + layout.scratch_at) as *mut u8,
                    O::SEGMENT_BYTES,
                ),
            )
        };
        // SAFETY: the last page of what was just mapped, which none of the parts has.
        unsafe { self.make_witness(base + layout.witness_at) };
        let now_seconds = O::now_ns() / 1_000_000_000;
        let writer = Writer::new(Key::new(&random), scratch, file.daily_bytes, now_seconds);
        random.fill(0);
        *self.records.lock() = Some(Records::new(rows, segments, buffer));
        // SAFETY: no other thread of the pager exists.
        unsafe {
            self.opener.set(writer.opener().clone());
            *self.writer.get() = Some(writer);
        }
        self.shared.store(shared, Relaxed);
        self.file.store(file.descriptor, Relaxed);
        self.identity[0].store(file.identity.0, Relaxed);
        self.identity[1].store(file.identity.1, Relaxed);
        self.state.store(WRITES, Release);
        true
    }

    /// Has a page tell from now on whether there are copies of this process (T2). Its content is like no other page's,
    /// so that nothing merges it with one.
    ///
    /// # Safety
    /// The page is the pager's, and nobody refers to it.
    unsafe fn make_witness(&self, at: usize) {
        let mut random = [0; 32];
        // SAFETY: as the caller promises.
        if O::fill_random(&mut random) && unsafe { O::keep_apart(at) } {
            // SAFETY: mapped just now.
            unsafe { (at as *mut [u8; 32]).write_volatile(random) };
            self.witness.store(at, Relaxed);
        }
    }

    /// Whether no copy of this process is left, and has not been for some time. By the thread that looks.
    fn has_no_copy(&self, page_map: Option<&O::Pagemap>) -> bool {
        let witness = self.witness.load(Relaxed);
        let is_alone = witness != 0 && page_map.is_some_and(|map| map.is_mapped_once(witness));
        let looks = if is_alone {
            self.looks_without_copy.load(Relaxed) + 1
        } else {
            0
        };
        self.looks_without_copy.store(looks, Relaxed);
        looks >= LOOKS_WITHOUT_COPY
    }

    /// The descriptor that the pager needs, if any, and if the program has it still.
    pub(crate) fn descriptor(&self) -> Option<i32> {
        let is_needed = self.is_used() && self.can_be_inherited();
        is_needed.then(|| self.file.load(Relaxed))
    }

    fn device(&self) -> File<O> {
        File(self.file.load(Relaxed), PhantomData)
    }

    fn tables(&self) -> Tables<'_, O> {
        Tables(&self.records)
    }

    /// What it holds, and has done.
    pub fn counts(&self) -> Option<Counts> {
        self.is_used()
            .then(|| self.tables().with(|records| records.counts()))
    }

    /// Where in the file a record lies, and how long it is there: for a test that damages it. `None`: it is in memory
    /// still, or lost.
    pub fn place(&self, record: u32) -> Option<(u64, u64)> {
        let record = Handle::of_number(record);
        self.is_used()
            .then(|| self.tables().with(|records| records.place(record)))?
    }

    /// Checks the tables: for tests.
    ///
    /// # Panics
    /// If something in them does not agree.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        if self.is_used() {
            self.tables().with(|records| records.check_invariants());
        }
    }

    /// Bytes of tables and buffers.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self.state.load(Acquire) {
            OFF => 0,
            _ => self.tables().with(|records| records.memory_bytes()) + O::SEGMENT_BYTES,
        }
    }

    /// Whether a page would be taken now.
    pub(crate) fn may_write(&self) -> bool {
        self.writes() && O::now_ns() >= self.again_ns.load(Relaxed)
    }

    /// Takes a record.
    ///
    /// # Safety
    /// By the reclaim thread.
    pub(crate) unsafe fn put(&self, owner: u64, bytes: &[u8]) -> Option<u32> {
        if !self.may_write() {
            return None;
        }
        // SAFETY: as the caller promises, nobody else uses it.
        let writer = unsafe { &mut *self.writer.get() }.as_mut()?;
        let now_ns = O::now_ns();
        writer.tick(now_ns / 1_000_000_000);
        match writer.put(&mut self.tables(), &mut self.device(), owner, bytes) {
            Ok(handle) => Some(handle.number()),
            Err(refused) => {
                let rest_ns = match refused {
                    Refused::Full => FULL_REST_NS,
                    _ => ERROR_REST_NS,
                };
                self.again_ns.store(now_ns + rest_ns, Relaxed);
                self.say_refused(refused);
                None
            }
        }
    }

    /// Reads a record. Its length; `None`: it cannot be read.
    pub(crate) fn get(&self, record: u32, owner: u64, into: &mut [u8; PAGE_SIZE]) -> Option<usize> {
        let opener = self.opener.get().filter(|_| self.is_used())?;
        let started = O::now_ns();
        let mut room = [0; PAGE_SIZE + SEAL_BYTES];
        let record = (Handle::of_number(record), owner);
        let read = read(
            &mut self.tables(),
            &mut self.device(),
            opener,
            record,
            &mut room,
        );
        self.latency.record(O::now_ns().saturating_sub(started));
        match read {
            Ok(length) => {
                into.get_mut(..length)?.copy_from_slice(&room[..length]);
                Some(length)
            }
            Err(error) => {
                if self.is_new(UNREADABLE) {
                    message::say(format_args!(
                        "pages cannot be read back from the file of --writeback: {error}"
                    ));
                }
                None
            }
        }
    }

    /// A record is not needed any more.
    pub(crate) fn remove(&self, record: u32, owner: u64) {
        if self.is_used() {
            let record = Handle::of_number(record);
            let was_there = self.tables().with(|records| records.remove(record, owner));
            debug_assert!(was_there, "a record that the tier does not know");
        }
    }

    /// Gives up space that is free, and ends keeping what nobody reads any more.
    ///
    /// # Safety
    /// By the reclaim thread.
    pub(crate) unsafe fn tidy(&self, page_map: Option<&O::Pagemap>) {
        if !self.writes() {
            return;
        }
        coldpress_tier::discard_freed(&mut self.tables(), &mut self.device());
        let now_ns = O::now_ns();
        if now_ns < self.looked_ns.load(Relaxed) + KEEP_LOOK_NS
            || self.tables().with(|records| records.kept_segments()) == 0
        {
            return;
        }
        self.looked_ns.store(now_ns, Relaxed);
        let is_read = || O::is_file_locked(self.file.load(Relaxed), READERS);
        let Some([begun, locked]) = self.shared() else {
            return;
        };
        // In this order (T2): a copy that locked, began another and ended has raised `begun` before it ended.
        let had_locked = locked.load(SeqCst);
        let is_alone = self.has_no_copy(page_map);
        if is_read() {
            return;
        }
        if begun.load(SeqCst) == had_locked {
            self.tables().with(Records::end_keeping);
        } else if is_alone {
            // Nobody else has the words, and this process makes no copy while this thread is here.
            locked.store(begun.load(SeqCst), SeqCst);
            self.tables().with(Records::end_keeping);
        }
    }

    fn shared(&self) -> Option<&[AtomicU32; 2]> {
        // SAFETY: null, or words in a mapping that stays.
        unsafe { self.shared.load(Relaxed).as_ref() }
    }

    /// Whether a child of the calling thread, one of the program's, could read the file.
    pub(crate) fn can_be_inherited(&self) -> bool {
        let identity = [0, 1].map(|n| self.identity[n].load(Relaxed));
        O::identity_of_file(self.file.load(Relaxed)) == Some((identity[0], identity[1]))
    }

    /// A fork is about to be made. The reclaim thread rests, and nobody removes anything until it is over. (A fork that
    /// fails is counted: what is kept stays until no copy is left.)
    pub(crate) fn keep_for_child(&self) {
        self.looks_without_copy.store(0, Relaxed);
        if let Some([begun, _]) = self.shared().filter(|_| self.is_used()) {
            begun.fetch_add(1, SeqCst);
        }
        if self.writes() {
            self.tables().with(Records::keep_all);
        }
    }

    /// In a copy of a process: says by a lock that it reads.
    ///
    /// # Safety
    /// By the pager's first thread, in whose table of descriptors the file is.
    pub(crate) unsafe fn begin_to_read(&self) {
        let locked = match self.descriptor() {
            Some(file) => O::lock_file(file, READERS, LockKind::Shared),
            None => {
                if self.is_used() {
                    self.say_once(GONE);
                }
                false
            }
        };
        self.locked.store(locked, Relaxed);
    }

    /// In a copy of a process, whose pager has started: it need not be counted any more, if it has its lock.
    pub(crate) fn has_begun_to_read(&self) {
        if self.is_used() && self.locked.load(Relaxed) {
            self.is_counted_no_more();
        }
    }

    fn is_counted_no_more(&self) {
        if let Some([_, locked]) = self.shared() {
            locked.fetch_add(1, SeqCst);
        }
    }

    /// In a copy of a process: nothing is below memory, or it was brought back.
    pub(crate) fn end_in_child(&self) {
        if self.is_used() {
            self.is_counted_no_more();
            self.end();
        }
    }

    /// Nothing is written any more, and there is nothing to read.
    pub(crate) fn end(&self) {
        self.state.store(OFF, Release);
    }

    /// The program has closed the descriptor: nothing is written any more. What is there is read back before a child is
    /// made.
    pub(crate) fn stop_writing(&self) {
        if self.writes() {
            self.state.store(READS, Release);
        }
        self.say_once(CLOSED);
    }

    /// In the child of a fork, which reads what there is and never writes (T1).
    ///
    /// # Safety
    /// This is the only thread of the process.
    pub(crate) unsafe fn begin_in_child(&self) {
        if self.is_used() {
            // SAFETY: as the caller promises.
            unsafe { self.records.raw() }.reset();
            self.state.store(READS, Release);
        }
    }

    fn say_refused(&self, refused: Refused) {
        match refused {
            Refused::Full => self.say_once(FULL),
            Refused::Budget => self.say_once(SPENT),
            Refused::Device(DeviceError::NoSpace) => self.say_once(NO_SPACE),
            _ => self.say_once(FAILED),
        }
    }

    fn is_new(&self, reason: u32) -> bool {
        self.said.fetch_or(1 << reason, Relaxed) & 1 << reason == 0
    }

    fn say_once(&self, reason: u32) {
        if self.is_new(reason) {
            message::say(format_args!("{}", REASONS[reason as usize]));
        }
    }
}

impl<O: Os> Default for Tier<O> {
    fn default() -> Self {
        Self::new()
    }
}

const FULL: u32 = 0;
const SPENT: u32 = 1;
const NO_SPACE: u32 = 2;
const FAILED: u32 = 3;
const NOT_ALONE: u32 = 4;
const CLOSED: u32 = 5;
/// Each page has a message of its own.
const UNREADABLE: u32 = 7;
const GONE: u32 = 6;

const REASONS: [&str; 7] = [
    "the file of --writeback is full: pages stay in memory until others leave it (allow more: --writeback-size)",
    "as much was written back in a day as --writeback-limit allows: pages stay in memory until the next",
    "no space is left for the file of --writeback: pages stay in memory (make room on its file system; the program's \
     limit of file sizes counts, too: ulimit -f)",
    "the file of --writeback cannot be written: pages stay in memory (the kernel's log may say why: dmesg)",
    "nothing is written back: this program was executed by one that has written back, or has children that may read the \
     file",
    "the program has closed the descriptor of --writeback, which its children would need: nothing is written back any \
     more, and what was is read into memory before a child is made",
    "the program has closed the descriptor of --writeback while it made this child: pages that were written back cannot \
     be read here",
];

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT_BYTES: usize = Linux::SEGMENT_BYTES;

    #[test]
    fn tables_have_a_row_for_what_the_file_may_hold() {
        let layout = Layout::of(64 << 20, SEGMENT_BYTES, 512 << 20).unwrap();
        assert_eq!(layout.segments, 512);
        assert_eq!(layout.rows, (64 << 10) + 1);
        assert!(layout.segments_at >= layout.rows * size_of::<Slot>());
        assert!(layout.buffer_at >= layout.segments_at + 512 * size_of::<Segment>());
        assert_eq!(layout.witness_at, layout.scratch_at + SEGMENT_BYTES);
        assert_eq!(layout.witness_at % PAGE_SIZE, 0);
        assert_eq!(layout.bytes, layout.witness_at + PAGE_SIZE);
        // A file that is larger than tables can be: as many rows as fit.
        let large = Layout::of(1 << 40, SEGMENT_BYTES, 512 << 20).unwrap();
        assert!(large.bytes <= 512 << 20);
        assert!(large.rows > 8_000_000);
        assert!(Layout::of(3 * SEGMENT_BYTES as u64, SEGMENT_BYTES, 512 << 20).is_none());
        assert!(Layout::of(1 << 50, SEGMENT_BYTES, 512 << 20).is_none());
    }
}
