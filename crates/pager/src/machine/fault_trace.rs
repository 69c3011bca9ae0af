//! Tracing of faults: when each stage of an answer was reached, fault by fault.
//!
//! Off, it costs one relaxed load at each stage. It is switched on by `COLDPRESS_TRACE_FAULTS=FILE` for the process that
//! `coldpress run` starts (not for children of a fork), and then stays on. The file is there already; its length says how many
//! records are kept, and it is mapped, so that a record is eight stores. What comes when it is full is counted only.
//!
//! The file is an array of numbers of 64 bits, eight to a record. The first record is the header: how many faults were traced
//! ever. The others are what `Record` says, in its order. `cargo xtask bench fault` makes the file and reads it.

use crate::machine::message;
use coldpress_linux::sys;
use coldpress_linux::text::Text;
use core::ptr::null_mut;
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Numbers in a record.
const WORDS: usize = 8;

/// The mapped file; null: nothing is traced.
static RECORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());
/// Records that fit, the header not counted.
static ROOM: AtomicUsize = AtomicUsize::new(0);

/// What is noted of a fault; times are of CLOCK_MONOTONIC, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub page: usize,
    pub thread: u32,
    pub stages: Stages,
    /// `UFFDIO_COPY` was called: the page was found and decoded.
    pub decoded_ns: u64,
    /// It returned.
    pub copied_ns: u64,
}

/// The stages up to where the fault is known.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stages {
    /// The handler was about to read: it runs.
    pub runs_ns: u64,
    /// The gate was closed.
    pub closed_ns: u64,
    /// The message was read.
    pub read_ns: u64,
}

/// What a handler reaches while the engine answers: written by that handler alone.
#[derive(Debug, Default)]
pub struct Answering {
    decoded_ns: AtomicU64,
    copied_ns: AtomicU64,
}

impl Answering {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            decoded_ns: AtomicU64::new(0),
            copied_ns: AtomicU64::new(0),
        }
    }

    /// The page that a thread waits for was put in place by a call that began then; the first counts.
    pub(crate) fn copied(&self, began_ns: u64) {
        if self.copied_ns.load(Relaxed) == 0 {
            self.decoded_ns.store(began_ns, Relaxed);
            self.copied_ns.store(sys::now_ns(), Relaxed);
        }
    }

    /// When it was put in place, if it was: the call and its return. For the next one nothing is reached.
    pub(crate) fn take(&self) -> Option<(u64, u64)> {
        let copied_ns = self.copied_ns.load(Relaxed);
        if copied_ns == 0 {
            return None;
        }
        self.copied_ns.store(0, Relaxed);
        Some((self.decoded_ns.load(Relaxed), copied_ns))
    }
}

/// Switches tracing on, if a file is named; one that cannot be used is said.
///
/// # Safety
/// The program has one thread, and the pager has not started.
pub unsafe fn configure(file: Option<&[u8]>) {
    let Some(file) = file.filter(|file| !file.is_empty()) else {
        return;
    };
    match map(file) {
        Some((mapped, room)) => {
            ROOM.store(room, Relaxed);
            RECORDS.store(mapped, Release);
        }
        None => message::say(format_args!(
            "faults are not traced: COLDPRESS_TRACE_FAULTS wants a file of zeros, as long as all records shall be (make \
             one: truncate -s 16M FILE)"
        )),
    }
}

/// Maps the file, and says how many records it has room for.
fn map(file: &[u8]) -> Option<(*mut AtomicU64, usize)> {
    let mut path = Text::<272>::default();
    path.push(file);
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path.as_c_str()?, flags, Mode::empty()).ok()?;
    let bytes = usize::try_from(rustix::fs::fstat(&file).ok()?.st_size).ok()?;
    let room = (bytes / size_of::<[u64; WORDS]>()).checked_sub(1)?;
    // What is there already may be somebody's.
    let mut header = [1u8; size_of::<[u64; WORDS]>()];
    let read = rustix::io::pread(&file, &mut header, 0).ok()?;
    if room == 0 || read < header.len() || header.iter().any(|&byte| byte != 0) {
        return None;
    }
    // A store to what the disk has no room for would be SIGBUS.
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64).ok()?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: a new mapping, of which nothing is a reference but the atomics made of it in `note`.
    let mapped = unsafe { rustix::mm::mmap(null_mut(), bytes, protection, flags, &file, 0) };
    Some((mapped.ok()?.cast(), room))
}

/// Switches it off: in the child of a fork.
pub fn stop() {
    RECORDS.store(null_mut(), Relaxed);
}

/// The time, or 0 where nothing is traced.
#[inline]
pub(crate) fn now_ns() -> u64 {
    match RECORDS.load(Relaxed).is_null() {
        true => 0,
        false => sys::now_ns(),
    }
}

/// Writes a record.
#[cold]
pub(crate) fn note(record: Record) {
    let records = RECORDS.load(Acquire);
    if records.is_null() {
        return;
    }
    // SAFETY: the mapping has room for the header and ROOM records, and is never unmapped.
    let words = unsafe { core::slice::from_raw_parts(records, (1 + ROOM.load(Relaxed)) * WORDS) };
    let number = words[0].fetch_add(1, Relaxed) as usize;
    let Some(words) = words.chunks_exact(WORDS).nth(1 + number) else {
        return;
    };
    let Stages {
        runs_ns,
        closed_ns,
        read_ns,
    } = record.stages;
    let numbers = [
        record.page as u64,
        u64::from(record.thread),
        runs_ns,
        closed_ns,
        read_ns,
        record.decoded_ns,
        record.copied_ns,
    ];
    for (word, number) in words.iter().zip(numbers) {
        word.store(number, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::vec::Vec;

    /// One test, since tracing is on for all of the process until it is stopped.
    #[test]
    fn records_are_in_the_file_and_none_beyond_it() {
        let path =
            std::env::temp_dir().join(std::format!("coldpress-faults-{}", std::process::id()));
        let numbers = || {
            let bytes = std::fs::read(&path).expect("the file");
            let numbers = bytes
                .chunks_exact(8)
                .map(|n| u64::from_le_bytes(n.try_into().expect("eight")));
            numbers.collect::<Vec<u64>>()
        };
        let name = path.as_os_str().as_bytes();
        for content in [&[][..], &[0; 64], &[7; 192], b"short"] {
            std::fs::write(&path, content).expect("a file");
            assert!(map(name).is_none(), "{} bytes", content.len());
            assert_eq!(std::fs::read(&path).expect("the file"), content);
        }
        assert!(map(b"/dev/zero").is_none() && map(b"/nowhere/at/all").is_none());
        std::fs::write(&path, std::vec![0; 3 * 64]).expect("a file");
        assert_eq!(now_ns(), 0, "nothing is traced yet");
        // SAFETY: nothing else of this process configures it.
        unsafe { configure(Some(name)) };
        let answering = Answering::new();
        assert!(answering.take().is_none());
        answering.copied(now_ns());
        answering.copied(now_ns());
        let (decoded_ns, copied_ns) = answering.take().expect("both");
        assert!(0 < decoded_ns && decoded_ns <= copied_ns);
        for page in [1, 2, 3] {
            let stages = Stages {
                runs_ns: 10,
                closed_ns: 20,
                read_ns: 30,
            };
            note(Record {
                page,
                thread: 7,
                stages,
                decoded_ns: 40,
                copied_ns: 50,
            });
        }
        stop();
        assert_eq!(now_ns(), 0);
        let found = numbers();
        assert_eq!(found[0], 3, "all are counted");
        assert_eq!(found[8..16], [1, 7, 10, 20, 30, 40, 50, 0]);
        assert_eq!(found[16..24], [2, 7, 10, 20, 30, 40, 50, 0]);
        std::fs::remove_file(&path).expect("the file");
    }
}
