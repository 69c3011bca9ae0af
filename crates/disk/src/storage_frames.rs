//! Frames for storage, under numbers without gaps.
//!
//! Storage keeps tables by the number of a frame, so its numbers must be dense; the frames behind them are of the
//! common pool, in whatever order they come.
//!
//! ```text
//!   number of storage ──table──▶ number of the pool ──chunk──▶ address        no lock on this way
//! ```

use crate::bits::Bits;
use crate::frames::{Frames, Purpose};
use crate::mapping::Mapping;
use coldpress_storage::{FrameIndex, FrameSource};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Numbers in a piece of the table: 1 GiB of frames.
const PIECE: usize = 1 << 18;

/// Pieces that there can be: 1 TiB.
const PIECES: usize = 1 << 10;

#[derive(Default)]
struct Numbers {
    free: Bits,
    used: u32,
    pieces: Vec<Mapping>,
}

pub(crate) struct StorageFrames {
    frames: Arc<Frames>,
    /// Addresses of the pieces in `numbers`, or null.
    table: Box<[AtomicPtr<AtomicU32>]>,
    /// Guards which numbers are lent; below the storage's lock, above the pool's.
    numbers: Mutex<Numbers>,
}

impl StorageFrames {
    pub(crate) fn new(frames: Arc<Frames>) -> Self {
        Self {
            frames,
            table: (0..PIECES).map(|_| AtomicPtr::default()).collect(),
            numbers: Mutex::default(),
        }
    }

    /// Bytes of tables.
    pub(crate) fn table_bytes(&self) -> usize {
        let numbers = self.numbers.lock();
        numbers.free.bytes() + numbers.used as usize * size_of::<u32>()
    }

    fn cell(&self, number: u32) -> Option<&AtomicU32> {
        let piece = self.table.get(number as usize / PIECE)?.load(Acquire);
        let piece = NonNull::new(piece)?;
        // SAFETY: inside the piece, which is aligned to a page, zero at first, and stays.
        Some(unsafe { piece.add(number as usize % PIECE).as_ref() })
    }

    /// The cell of a number for which there may be no piece yet.
    fn new_cell(&self, number: u32, pieces: &mut Vec<Mapping>) -> Option<&AtomicU32> {
        let piece = self.table.get(number as usize / PIECE)?;
        if piece.load(Relaxed).is_null() {
            let memory = Mapping::new(PIECE * size_of::<AtomicU32>())?;
            piece.store(memory.start().as_ptr().cast(), Release);
            pieces.push(memory);
        }
        self.cell(number)
    }

    /// Gives a number its frame.
    fn fill(&self, numbers: &mut Numbers, number: u32) -> Option<()> {
        let cell = self.new_cell(number, &mut numbers.pieces)?;
        cell.store(self.frames.lend(Purpose::Storage)?, Release);
        Some(())
    }
}

// SAFETY: each number stands for a frame of the pool that was lent to it alone, whose address does not change (F2);
// it was zero at first, and initialised since.
unsafe impl FrameSource for StorageFrames {
    fn allocate(&self) -> Option<FrameIndex> {
        let mut numbers = self.numbers.lock();
        let number = match numbers.free.take_least() {
            Some(number) => number,
            None => numbers.used + 1,
        };
        let is_filled = self.fill(&mut numbers, number).is_some();
        if number > numbers.used {
            numbers.used += u32::from(is_filled);
        } else if !is_filled {
            numbers.free.insert(number, 1);
        }
        is_filled.then_some(FrameIndex(number))
    }

    fn free(&self, frame: FrameIndex) {
        let mut numbers = self.numbers.lock();
        let cell = self.cell(frame.0).expect("a number that was lent");
        self.frames.take_back(cell.swap(0, Relaxed));
        numbers.free.insert(frame.0, 1);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        let cell = self.cell(frame.0).expect("a number that was lent");
        self.frames.address(cell.load(Acquire))
    }
}
