//! The file of pages that are written back: what the kernel answers, and what becomes of what was written.
//!
//! A fault of a read comes once: a thread whose read has failed finds what is there the next times, so that no page may
//! be lost by it. What is damaged or lost stays so until it is written again, and its pages may be poisoned.

use super::kernel::{is_pagers, kernel};
use super::os::{SimOs, act};
use super::readers::{Moment, Readers};
use crate::inject::Kind;
use crate::schedule::{MAX_THREADS, doze, fires, note, random, simulation};
use crate::trace::What;
use coldpress_pager::machine::os::{FileError, Os};
use coldpress_pager::settings::config::WriteBackFile;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// Bytes that are written at once: a whole page is an eighth at most, with its tag.
pub const SEGMENT_BYTES: usize = 40 << 10;
/// What the kernel writes to the device, and loses, at once.
pub const BLOCK_BYTES: usize = 4 << 10;
/// Its number.
const DESCRIPTOR: i32 = 3;
/// Which file it is.
pub const IDENTITY: (u64, u64) = (1, 2);
/// How long a read may take, in steps.
const SLOW_STEPS: u64 = 6_000;
/// Reads of a thread that do not fail after one that has.
const READS_WITHOUT: u32 = 6;

/// The file.
pub struct File {
    bytes: RefCell<Vec<u8>>,
    /// What cannot be read until it is written again.
    bad: RefCell<Vec<Range<usize>>>,
    /// How many reads of each thread do not fail.
    spared: [Cell<u32>; MAX_THREADS + 1],
    is_open: Cell<bool>,
    /// Forks under way: meanwhile a correct program closes nothing.
    pub forks: Cell<u32>,
    /// Children that read it.
    pub readers: Readers,
}

/// Whether two ranges have a byte in common.
pub fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Others go first, where the pager works; what only looks at it is let go on.
fn others_go_first(at: u64) {
    if is_pagers() {
        act(What::File, 0, at as u32);
    }
}

/// The file of a world, if it has one.
pub fn some_file() -> Option<WriteBackFile> {
    // Few: it is full soon, and cleaned again and again.
    let segments = random().pick(&[4, 4, 5, 6, 8, 13]);
    let daily_bytes = random().between(1 << 14, 1 << 18);
    random().one_in(2).then_some(WriteBackFile {
        descriptor: DESCRIPTOR,
        identity: IDENTITY,
        bytes: segments * SEGMENT_BYTES as u64,
        daily_bytes: random().one_in(3).then_some(daily_bytes),
    })
}

/// The file of the simulation that the caller is part of.
pub fn file() -> &'static File {
    &kernel().file
}

impl Default for File {
    fn default() -> Self {
        Self {
            bytes: RefCell::default(),
            bad: RefCell::default(),
            spared: [const { Cell::new(0) }; MAX_THREADS + 1],
            is_open: Cell::new(true),
            forks: Cell::new(0),
            readers: Readers::default(),
        }
    }
}

impl File {
    /// `pread`.
    ///
    /// # Errors
    /// By chance, or where it is bad.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<usize, FileError> {
        others_go_first(at);
        if SimOs::is_handler() && fires(Kind::FileReadSlow) {
            // Meanwhile what is to be read may be moved, and its place be written again.
            doze(SLOW_STEPS);
        }
        let range = at as usize..at as usize + into.len();
        if self.bad.borrow().iter().any(|bad| overlap(bad, &range)) {
            return Err(FileError::Io);
        }
        let spared = &self.spared[simulation().current()];
        let may_fail = spared.get() == 0;
        spared.set(spared.get().saturating_sub(1));
        if may_fail && fires(Kind::FileReadFails) {
            spared.set(READS_WITHOUT);
            return Err(FileError::Io);
        }
        if may_fail && fires(Kind::FileReadEnds) {
            spared.set(READS_WITHOUT);
            return Ok(0);
        }
        let mut length = into.len();
        if may_fail && length > 1 && fires(Kind::FileReadShort) {
            length = random().between(1, length as u64) as usize;
        }
        let bytes = self.bytes.borrow();
        for (to, at) in into[..length].iter_mut().zip(range.start..) {
            *to = bytes.get(at).copied().unwrap_or(0);
        }
        if may_fail && fires(Kind::FileReadDamaged) {
            spared.set(READS_WITHOUT);
            into[random().below(length as u64) as usize] ^= 1 << random().below(8);
        }
        Ok(length)
    }

    /// `pwrite`. Others may read in the middle of it.
    ///
    /// # Errors
    /// By chance; some of it may be written then.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<usize, FileError> {
        others_go_first(at);
        let part = random().below(bytes.len() as u64) as usize;
        let at = at as usize;
        if fires(Kind::FileNoSpace) {
            self.put(at, &bytes[..part]);
            return Err(FileError::NoSpace);
        }
        if fires(Kind::FileWriteFails) {
            return Err(FileError::Io);
        }
        self.put(at, &bytes[..part]);
        if part > 0 && fires(Kind::FileWriteShort) {
            return Ok(part);
        }
        others_go_first(at as u64);
        if part > 0 && fires(Kind::FileWriteTorn) {
            return Err(FileError::Io);
        }
        self.put(at + part, &bytes[part..]);
        Ok(bytes.len())
    }

    fn put(&self, at: usize, new: &[u8]) {
        let range = at..at + new.len();
        self.readers.must_not_read(&range);
        let mut bytes = self.bytes.borrow_mut();
        if bytes.len() < range.end {
            bytes.resize(range.end, 0);
        }
        bytes[range.clone()].copy_from_slice(new);
        self.bad.borrow_mut().retain(|bad| !overlap(bad, &range));
    }

    /// `fallocate`, which makes a hole.
    ///
    /// # Errors
    /// By chance.
    pub fn discard(&self, at: u64, length: u64) -> Result<(), FileError> {
        others_go_first(at);
        if fires(Kind::FileDiscardFails) {
            return Err(FileError::Io);
        }
        self.put(at as usize, &vec![0; length as usize]);
        Ok(())
    }

    /// Whether the program has its descriptor still.
    pub fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// The program closes the descriptor. Whether it had it.
    pub fn close(&self) -> bool {
        self.is_open.replace(false)
    }

    /// Whether anything was written to it.
    pub fn has_content(&self) -> bool {
        !self.bytes.borrow().is_empty()
    }

    /// Whether a child has a lock on it.
    pub fn is_read(&self) -> bool {
        others_go_first(0);
        self.children_hurry();
        let is_read = self.readers.have_locks();
        self.children_hurry();
        others_go_first(0);
        is_read
    }

    /// Children are processes: they go on at any moment, also between two looks of a thread.
    fn children_hurry(&self) {
        for _ in 0..random().below(4) {
            self.readers.hurry();
            self.children_go_on(Moment::Meanwhile);
        }
    }

    /// What lies there.
    pub fn content(&self, range: Range<usize>) -> Vec<u8> {
        self.bytes.borrow()[range].to_vec()
    }

    /// A bit of it turns.
    pub fn rot(&self, range: Range<usize>) {
        note(Kind::FileRots);
        let at = range.start + random().below(range.len() as u64) as usize;
        self.bytes.borrow_mut()[at] ^= 1 << random().below(8);
        self.readers.lose(&range);
    }

    /// It cannot be read from now on.
    pub fn spoil(&self, range: Range<usize>) {
        note(Kind::FileSpoiled);
        self.readers.lose(&range);
        self.bad.borrow_mut().push(range);
    }

    /// The device has not taken what was written long ago: the kernel has what lay there before.
    pub fn lose(&self, range: Range<usize>) {
        note(Kind::FileWriteLost);
        let mut bytes = self.bytes.borrow_mut();
        let end = range.end.min(bytes.len());
        bytes[range.start..end].fill(0);
        self.readers.lose(&range);
    }

    /// Children go on; at the end each of them looks.
    pub fn children_go_on(&self, moment: Moment) {
        self.readers.go_on(&self.bytes.borrow(), moment);
    }
}
