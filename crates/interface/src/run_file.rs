//! The run file: one for each `coldpress run`, mapped by all processes that it manages.
//!
//! ```text
//!      0 ┌──────────────┐
//!        │ head         │ who supervises; written by `run`
//!   4096 ├──────────────┤
//!        │ owners       │ one word a slot: which process it belongs to
//!  12288 ├──────────────┤
//!        │ ring         │ messages to the person
//!  28672 ├──────────────┤
//!        │ slot 0       │ a [`Page`]: statistics, mappings, control
//!  45056 ├──────────────┤
//!        │ slot 1       │
//!        └──────────────┘ … 1,024 slots, backed as they are claimed
//! ```
//!
//! A process claims the first free slot with one compare-and-swap and backs its pages before it stores
//! to them: the file may lie where there is no room for more, and a store to a page that cannot be had
//! raises SIGBUS. It never gives its slot back, since it may be killed: `run` frees the slots of
//! processes that have ended, after it has added up their figures. A process that replaces itself
//! (`execve`) claims another slot; all that its id owned before are marked as past.
//!
//! Messages go through a ring of fixed records, so that nothing in a program writes to a descriptor
//! that the program could own, waits for a reader, or allocates. A writer takes the next number, clears
//! the record's stamp, fills the record in and sets the stamp. The reader believes a record if the stamp was
//! that of its number before and after it was copied.
//!
//! All processes of a run may write all of it, so `run` bounds and cleans whatever it reads.

use crate::page::{self, Page};
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// `"COLDRUN1"`, little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"COLDRUN1");
/// Layout version of the run file; the slots have their own ([`crate::statistics::VERSION`]).
pub const VERSION: u64 = 1;
/// Processes that have a slot at a time.
pub const SLOTS: usize = 1024;
/// Messages that are kept until they are read.
pub const RECORDS: usize = 32;
/// Longest message in bytes; what is longer is cut.
pub const TEXT_BYTES: usize = 496;

/// Where the words of the owners begin.
pub const OWNERS_AT: usize = 4096;
/// Where the messages begin.
pub const RING_AT: usize = OWNERS_AT + SLOTS * 8;
/// Where the slots begin.
pub const SLOTS_AT: usize = RING_AT + RECORDS * size_of::<Record>();
/// Bytes of the file.
pub const FILE_BYTES: usize = SLOTS_AT + SLOTS * page::FILE_BYTES;

/// Where slot `number` begins.
pub const fn slot_at(number: usize) -> usize {
    SLOTS_AT + number * page::FILE_BYTES
}

/// The process that a slot belongs to, as its word in the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its id, as it calls itself.
    pub pid: u32,
    /// It has replaced itself since: the figures are those of what it ran before.
    pub is_past: bool,
    /// Its id means something in another namespace of processes only.
    pub is_foreign: bool,
}

const PAST: u64 = 1 << 32;
const FOREIGN: u64 = 1 << 33;

impl Owner {
    /// The owner in a word; `None`: the slot is free.
    pub const fn from_word(word: u64) -> Option<Self> {
        match word as u32 {
            0 => None,
            pid => Some(Self {
                pid,
                is_past: word & PAST != 0,
                is_foreign: word & FOREIGN != 0,
            }),
        }
    }

    /// The word.
    pub const fn word(self) -> u64 {
        let past = if self.is_past { PAST } else { 0 };
        let foreign = if self.is_foreign { FOREIGN } else { 0 };
        self.pid as u64 | past | foreign
    }
}

const WORDS: usize = TEXT_BYTES / 8;

/// A message.
#[repr(C)]
#[derive(Debug)]
struct Record {
    /// Its number plus one; 0: it is being written.
    stamp: AtomicU64,
    /// Process id; the length of the text from bit 32 on.
    writer: AtomicU64,
    text: [AtomicU64; WORDS],
}

impl Record {
    const fn new() -> Self {
        Self {
            stamp: AtomicU64::new(0),
            writer: AtomicU64::new(0),
            text: [const { AtomicU64::new(0) }; WORDS],
        }
    }
}

/// What was heard at one number of the ring.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing was said under it yet.
    Nothing,
    /// It is being written, or its writer was killed meanwhile.
    Unfinished,
    /// It was overwritten before it was read.
    Lost,
    /// A message of this process, of so many bytes.
    Message(u32, usize),
}

const HEAD_PADDING: usize = OWNERS_AT - 12 * 8;

/// Faults of children of forks that were too young to have a slot, and most of which never get one.
#[repr(C)]
#[derive(Debug)]
pub struct YoungWaits {
    /// Those answered.
    pub faults: AtomicU64,
    /// How long they waited, in nanoseconds.
    pub waited_ns: AtomicU64,
    /// The longest of them.
    pub longest_ns: AtomicU64,
}

impl YoungWaits {
    /// None.
    pub const fn new() -> Self {
        Self {
            faults: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        }
    }

    /// Takes note of a fault that was answered after so long.
    pub fn note(&self, ns: u64) {
        self.faults.fetch_add(1, Relaxed);
        self.waited_ns.fetch_add(ns, Relaxed);
        self.longest_ns.fetch_max(ns, Relaxed);
    }
}

impl Default for YoungWaits {
    fn default() -> Self {
        Self::new()
    }
}

/// All but the slots.
#[repr(C)]
#[derive(Debug)]
pub struct Head {
    /// [`MAGIC`] once the file is complete.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// The `coldpress run` that made it.
    pub supervisor_pid: AtomicU64,
    /// When that process started, in clock ticks since boot.
    pub supervisor_start_ticks: AtomicU64,
    /// Inode of its namespace of processes.
    pub pid_namespace: AtomicU64,
    /// The process that it started.
    pub root_pid: AtomicU64,
    /// Processes that found no slot.
    pub without_slot: AtomicU64,
    /// Messages written, ever.
    pub said: AtomicU64,
    /// Messages that the supervisor has passed on.
    pub told: AtomicU64,
    /// What young children waited for.
    pub young: YoungWaits,
    padding: [u8; HEAD_PADDING],
    /// [`Owner::word`] of each slot.
    pub owners: [AtomicU64; SLOTS],
    ring: [Record; RECORDS],
}

const _: () = {
    assert!(size_of::<Head>() == SLOTS_AT);
    assert!(core::mem::offset_of!(Head, owners) == OWNERS_AT);
    assert!(core::mem::offset_of!(Head, ring) == RING_AT);
    assert!(SLOTS_AT.is_multiple_of(crate::PAGE_SIZE));
    assert!(size_of::<Page>() == page::FILE_BYTES);
};

impl Default for Head {
    fn default() -> Self {
        Self::new()
    }
}

impl Head {
    /// One of zeros, with free slots and no messages.
    pub const fn new() -> Self {
        Self {
            magic: AtomicU64::new(0),
            version: AtomicU64::new(0),
            supervisor_pid: AtomicU64::new(0),
            supervisor_start_ticks: AtomicU64::new(0),
            pid_namespace: AtomicU64::new(0),
            root_pid: AtomicU64::new(0),
            without_slot: AtomicU64::new(0),
            said: AtomicU64::new(0),
            told: AtomicU64::new(0),
            young: YoungWaits::new(),
            padding: [0; HEAD_PADDING],
            owners: [const { AtomicU64::new(0) }; SLOTS],
            ring: [const { Record::new() }; RECORDS],
        }
    }

    /// Whether the file was completed by a command of this layout.
    pub fn is_current(&self) -> bool {
        self.magic.load(Acquire) == MAGIC && self.version.load(Relaxed) == VERSION
    }

    /// The owner of a slot.
    pub fn owner(&self, slot: usize) -> Option<Owner> {
        Owner::from_word(self.owners.get(slot)?.load(Acquire))
    }

    /// The slots that have an owner.
    pub fn claimed(&self) -> impl Iterator<Item = (usize, Owner)> + '_ {
        (0..SLOTS).filter_map(|slot| Some((slot, self.owner(slot)?)))
    }

    /// Takes the first free slot for a process. What its id owned before is past, be it of the same
    /// process or of an earlier one. `None`: there is no free slot.
    pub fn claim(&self, pid: u32, is_foreign: bool) -> Option<usize> {
        let owner = Owner {
            pid,
            is_past: false,
            is_foreign,
        };
        let mut free = None;
        for (slot, word) in self.owners.iter().enumerate() {
            match word.load(Relaxed) {
                0 if free.is_none() => {
                    let taken = word.compare_exchange(0, owner.word(), Acquire, Relaxed);
                    free = taken.ok().map(|_| slot);
                }
                // (Two namespaces may each have a process of that id.)
                old if old == owner.word() && free != Some(slot) && !is_foreign => {
                    let _ = word.compare_exchange(old, old | PAST, Relaxed, Relaxed);
                }
                _ => {}
            }
        }
        if free.is_none() {
            self.without_slot.fetch_add(1, Relaxed);
        }
        free
    }

    /// Frees a slot, if it still belongs to that owner.
    pub fn free(&self, slot: usize, owner: Owner) -> bool {
        self.owners[slot]
            .compare_exchange(owner.word(), 0, Release, Relaxed)
            .is_ok()
    }

    /// Writes a message: never waits, and can be called anywhere.
    pub fn say(&self, pid: u32, text: &[u8]) {
        let text = &text[..text.len().min(TEXT_BYTES)];
        let number = self.said.fetch_add(1, Relaxed);
        let record = &self.ring[number as usize % RECORDS];
        record.stamp.store(0, Relaxed);
        fence(Release);
        let writer = u64::from(pid) | (text.len() as u64) << 32;
        record.writer.store(writer, Relaxed);
        for (word, bytes) in record.text.iter().zip(text.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(padded), Relaxed);
        }
        record.stamp.store(number + 1, Release);
    }

    /// Reads the message of a number into `into`.
    pub fn hear(&self, number: u64, into: &mut [u8; TEXT_BYTES]) -> Heard {
        let said = self.said.load(Acquire);
        if number >= said {
            return Heard::Nothing;
        }
        if said - number > RECORDS as u64 {
            return Heard::Lost;
        }
        let record = &self.ring[number as usize % RECORDS];
        let before = record.stamp.load(Acquire);
        let writer = record.writer.load(Relaxed);
        for (word, bytes) in record.text.iter().zip(into.as_chunks_mut::<8>().0) {
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
        fence(Acquire);
        match record.stamp.load(Relaxed) {
            after if after == before && after == number + 1 => {
                Heard::Message(writer as u32, ((writer >> 32) as usize).min(TEXT_BYTES))
            }
            after if after > number + 1 => Heard::Lost,
            _ => Heard::Unfinished,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::string::String;

    fn head() -> Box<Head> {
        Box::new(Head::new())
    }

    fn heard(head: &Head, number: u64) -> Result<(u32, String), Heard> {
        let mut text = [0; TEXT_BYTES];
        match head.hear(number, &mut text) {
            Heard::Message(pid, len) => Ok((pid, String::from_utf8_lossy(&text[..len]).into())),
            other => Err(other),
        }
    }

    #[test]
    fn slots_are_claimed_freed_and_claimed_again() {
        let head = head();
        assert_eq!(head.claim(7, false), Some(0));
        assert_eq!(head.claim(8, true), Some(1));
        let first = head.owner(0).unwrap();
        assert!(!first.is_past && head.owner(1).unwrap().is_foreign);
        // It replaced itself: the slot that it had is past, and no other.
        assert_eq!(head.claim(7, false), Some(2));
        let past = head.owner(0).unwrap();
        assert!(past.is_past && !head.owner(1).unwrap().is_past);
        assert!(!head.free(0, first), "it has changed since");
        assert!(head.free(0, past));
        assert_eq!(head.claim(9, false), Some(0));
        for _ in 3..SLOTS {
            assert!(head.claim(9, false).is_some());
        }
        assert_eq!(head.claim(10, false), None);
        assert_eq!(head.without_slot.load(Relaxed), 1);
        assert_eq!(head.claimed().count(), SLOTS);
    }

    #[test]
    fn messages_are_heard_once_each_and_cut() {
        let head = head();
        assert_eq!(heard(&head, 0), Err(Heard::Nothing));
        head.say(7, b"first");
        head.say(8, &[b'x'; 2 * TEXT_BYTES]);
        assert_eq!(heard(&head, 0), Ok((7, "first".into())));
        assert_eq!(heard(&head, 1).unwrap().1.len(), TEXT_BYTES);
        assert_eq!(heard(&head, 2), Err(Heard::Nothing));
        (0..RECORDS).for_each(|_| head.say(9, b"more"));
        assert_eq!(heard(&head, 0), Err(Heard::Lost));
        assert_eq!(heard(&head, 2), Ok((9, "more".into())));
        // A writer that was killed on the way.
        head.said.fetch_add(1, Relaxed);
        head.ring[2].stamp.store(0, Relaxed);
        assert_eq!(heard(&head, 2 + RECORDS as u64), Err(Heard::Unfinished));
    }

    #[test]
    fn a_length_that_cannot_be_is_bounded() {
        let head = head();
        head.say(7, b"text");
        head.ring[0].writer.store(u64::MAX, Relaxed);
        assert_eq!(heard(&head, 0).unwrap().1.len(), TEXT_BYTES);
    }
}
