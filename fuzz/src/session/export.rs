//! The export that sessions are about: 8 KiB of memory in blocks, and an end that may lie far beyond them.
//!
//! What state a block has is a bit, and the length of a run is counted by shifts. So the path through this file depends
//! on ranges alone, and never on content: content would otherwise be coverage, and fill the corpus.
//!
//! It asserts what the server promises of its calls ([`Blocks::range`], [`Blocks::change`]).

use coldpress_nbd::{Export, Exports, Extent, Failure, Zeroing};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Bytes that have memory.
pub(super) const BACKED: usize = 8192;
/// Bytes of a block, which has one state. Less than the shortest hole that the server names in a read.
const BLOCK: usize = 64;
/// The block that some exports have trouble with.
const BAD: Range<u64> = 2560..2624;

/// What an export fails at. All but flushes fail in one block only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fails {
    Never,
    Reads,
    /// Each kind of change has an error of its own. The change before a flush that fails has been made.
    Changes,
    Extents,
}

/// What kind of export it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nature {
    pub(super) size_bytes: u64,
    pub(super) read_only: bool,
    /// Says the state of one block at a time.
    pub(super) crumbs: bool,
    pub(super) fails: Fails,
}

/// What an export holds. Blocks that are in neither set are holes.
#[derive(Debug)]
pub(super) struct Content {
    bytes: [u8; BACKED],
    data: u128,
    zero: u128,
    flushes: u64,
}

impl Content {
    /// Whether both hold the same, in the same states, and were flushed as often.
    pub(super) fn same(&self, other: &Self) -> bool {
        let figures = |content: &Self| (content.data, content.zero, content.flushes);
        alike(&self.bytes, &other.bytes) && figures(self) == figures(other)
    }

    /// Whether `bytes` are what lies at `offset`.
    pub(super) fn is_at(&self, offset: u64, bytes: &[u8]) -> bool {
        let backed = backed(offset, bytes.len() as u64);
        let (first, rest) = bytes.split_at(backed.len());
        let beyond = rest.iter().fold(0, |seen, byte| seen | byte);
        alike(first, &self.bytes[backed]) & (beyond == 0)
    }

    /// Whether nothing in the range is data.
    pub(super) fn is_hole(&self, offset: u64, length: u64) -> bool {
        self.data & blocks(touched(&backed(offset, length))) == 0
    }

    /// State of what begins at `offset`, and how many bytes have it, `most` at the utmost.
    pub(super) fn run(&self, offset: u64, most: u64) -> (u64, Extent) {
        if offset >= BACKED as u64 {
            return (most, Extent::Hole);
        }
        let block = offset as usize / BLOCK;
        let states = [
            (self.data, Extent::Data),
            (self.zero, Extent::Zero),
            (!(self.data | self.zero), Extent::Hole),
        ];
        let number = 2 - 2 * (self.data >> block & 1) - (self.zero >> block & 1);
        let (set, state) = states[number as usize];
        let end = block + (!(set >> block)).trailing_zeros().min(128 - block as u32) as usize;
        // All that has no memory is one hole.
        let end = match (end * BLOCK, state) {
            (BACKED, Extent::Hole) => u64::MAX,
            (end, _) => end as u64,
        };
        ((end - offset).min(most), state)
    }
}

/// Whether the bytes are the same ones, by a way that does not depend on them.
fn alike(left: &[u8], right: &[u8]) -> bool {
    let pairs = left.iter().zip(right);
    let differ = pairs.fold(0, |seen, (left, right)| seen | (left ^ right));
    (left.len() == right.len()) & (differ == 0)
}

/// The part of a range that has memory.
fn backed(offset: u64, length: u64) -> Range<usize> {
    let most = BACKED as u64;
    let end = offset.saturating_add(length).min(most);
    offset.min(most) as usize..end as usize
}

/// Numbers of the blocks that a range lies in, be it with one byte.
fn touched(range: &Range<usize>) -> Range<usize> {
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}

/// The blocks of these numbers, as a set.
fn blocks(numbers: Range<usize>) -> u128 {
    let below = |number: usize| u128::MAX.checked_shr(128 - number as u32).unwrap_or(0);
    below(numbers.end) & !below(numbers.start)
}

/// An export of blocks.
pub(super) struct Blocks {
    pub(super) nature: Nature,
    pub(super) content: Mutex<Content>,
}

impl Blocks {
    /// An empty one.
    pub(super) fn new(nature: Nature) -> Self {
        let content = Content {
            bytes: [0; BACKED],
            data: 0,
            zero: 0,
            flushes: 0,
        };
        let blocks = Self {
            nature,
            content: Mutex::new(content),
        };
        blocks.mark_bad();
        blocks
    }

    /// Whether a range has a byte that this kind of call fails at.
    pub(super) fn bad(&self, fails: Fails, offset: u64, length: u64) -> bool {
        let overlap = (offset < BAD.end) & (offset.saturating_add(length) > BAD.start);
        (self.nature.fails == fails) & overlap
    }

    /// Bytes from here to the bad block.
    pub(super) fn before_bad(offset: u64) -> u64 {
        BAD.start - offset
    }

    /// What cannot be read is data, so that nobody takes it for a hole.
    fn mark_bad(&self) {
        if self.nature.fails == Fails::Reads {
            let bad = blocks(touched(&(BAD.start as usize..BAD.end as usize)));
            let mut content = self.content.lock().expect("one thread");
            content.data |= bad;
            content.zero &= !bad;
        }
    }

    /// Asserts that a call is within the export; gives the part that has memory.
    fn range(&self, offset: u64, length: u64) -> Range<usize> {
        assert!(length > 0, "a call for nothing");
        let end = offset.checked_add(length);
        let within = end.is_some_and(|end| end <= self.nature.size_bytes);
        assert!(within, "a call for {offset}+{length}");
        backed(offset, length)
    }

    /// Asserts of a change, too, that it is allowed.
    fn change(&self, offset: u64, length: u64) -> Range<usize> {
        assert!(!self.nature.read_only, "a change of what is read-only");
        self.range(offset, length)
    }

    fn clear(&self, range: Range<usize>, zeroing: Zeroing) {
        let full =
            range.start.div_ceil(BLOCK)..(range.end / BLOCK).max(range.start.div_ceil(BLOCK));
        let (touched, full) = (blocks(touched(&range)), blocks(full));
        let mut content = self.content.lock().expect("one thread");
        content.bytes[range].fill(0);
        content.data &= !full;
        match zeroing {
            Zeroing::MayPunch => content.zero &= !full,
            Zeroing::NoHole => content.zero |= touched & !content.data,
        }
        drop(content);
        self.mark_bad();
    }
}

impl Export for Blocks {
    fn size_bytes(&self) -> u64 {
        self.nature.size_bytes
    }

    fn read_only(&self) -> bool {
        self.nature.read_only
    }

    fn description(&self) -> String {
        super::DESCRIPTION.into()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        let range = self.range(offset, buffer.len() as u64);
        if self.bad(Fails::Reads, offset, buffer.len() as u64) {
            return Err(Failure::Io);
        }
        let (first, rest) = buffer.split_at_mut(range.len());
        first.copy_from_slice(&self.content.lock().expect("one thread").bytes[range]);
        rest.fill(0);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let range = self.change(offset, data.len() as u64);
        if range.len() < data.len() || self.bad(Fails::Changes, offset, data.len() as u64) {
            return Err(Failure::NoSpace);
        }
        let touched = blocks(touched(&range));
        let mut content = self.content.lock().expect("one thread");
        content.bytes[range].copy_from_slice(data);
        content.data |= touched;
        content.zero &= !touched;
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        let range = self.change(offset, length);
        if self.bad(Fails::Changes, offset, length) {
            return Err(Failure::Invalid);
        }
        self.clear(range, Zeroing::MayPunch);
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), Failure> {
        let range = self.change(offset, length);
        if self.bad(Fails::Changes, offset, length) {
            return Err(Failure::NoMemory);
        }
        self.clear(range, zeroing);
        Ok(())
    }

    fn flush(&self) -> Result<(), Failure> {
        self.content.lock().expect("one thread").flushes += 1;
        match self.nature.fails {
            Fails::Changes => Err(Failure::Shutdown),
            _ => Ok(()),
        }
    }

    fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure> {
        self.range(offset, length);
        if self.bad(Fails::Extents, offset, 1) {
            return Err(Failure::Io);
        }
        let (mut bytes, state) = self.content.lock().expect("one thread").run(offset, length);
        if self.bad(Fails::Extents, offset, bytes) {
            bytes = Self::before_bad(offset);
        }
        if self.nature.crumbs && offset < BACKED as u64 {
            bytes = bytes.min(BLOCK as u64 - offset % BLOCK as u64);
        }
        Ok((bytes, state))
    }
}

/// The one export of a server.
pub(super) struct One(pub(super) Arc<Blocks>);

impl Exports for One {
    fn find(&self, name: &str) -> Option<Arc<dyn Export>> {
        let known = super::NAMES.contains(&name);
        known.then(|| Arc::clone(&self.0) as Arc<dyn Export>)
    }

    fn names(&self) -> Vec<(String, String)> {
        vec![(super::NAMES[1].into(), super::DESCRIPTION.into())]
    }
}
