//! A host for tests: frames in boxes, chunks from the allocator.
#![allow(dead_code, reason = "each test file uses what it needs")]

pub mod model;

use std::alloc::{Layout, alloc_zeroed};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use coldpress_arena::{CHUNK_BYTES, ChunkSource};
use coldpress_storage::{CompressedStorage, FRAME_BYTES, FrameIndex, FrameSource, ThreeSlot};

#[repr(C, align(4096))]
struct Frame(UnsafeCell<[u8; FRAME_BYTES]>);

struct Lent {
    /// Stack of frames given back, by length in `free_count`.
    free: Box<[u32]>,
    free_count: usize,
    /// Largest index ever lent.
    high_water: u32,
    is_lent: Box<[bool]>,
}

/// A fixed number of frames; checks that its borrower keeps to the rules.
pub struct Host {
    frames: Box<[Frame]>,
    lent: Mutex<Lent>,
    pub allocations: AtomicUsize,
}

// SAFETY: the frames' bytes are used only by borrowers, as FrameSource demands.
unsafe impl Sync for Host {}

impl Host {
    pub fn new(frames: usize) -> Self {
        Self {
            frames: (0..frames)
                .map(|_| Frame(UnsafeCell::new([0xee; FRAME_BYTES])))
                .collect(),
            lent: Mutex::new(Lent {
                free: vec![0; frames].into(),
                free_count: 0,
                high_water: 0,
                is_lent: vec![false; frames + 1].into(),
            }),
            allocations: AtomicUsize::new(0),
        }
    }

    pub fn lent(&self) -> usize {
        let lent = self.lent.lock().unwrap();
        lent.high_water as usize - lent.free_count
    }
}

// SAFETY: each index stands for a box element of its own, at a fixed address, aligned to 4096;
// `is_lent` makes sure that none is lent twice.
unsafe impl FrameSource for Host {
    fn allocate(&self) -> Option<FrameIndex> {
        let mut lent = self.lent.lock().unwrap();
        let frame = if lent.free_count > 0 {
            lent.free_count -= 1;
            lent.free[lent.free_count]
        } else if (lent.high_water as usize) < self.frames.len() {
            lent.high_water += 1;
            lent.high_water
        } else {
            return None;
        };
        assert!(!std::mem::replace(&mut lent.is_lent[frame as usize], true));
        self.allocations.fetch_add(1, Relaxed);
        Some(FrameIndex(frame))
    }

    fn free(&self, frame: FrameIndex) {
        let mut lent = self.lent.lock().unwrap();
        let was_lent = std::mem::replace(&mut lent.is_lent[frame.0 as usize], false);
        assert!(was_lent, "a frame is given back that was not lent");
        let count = lent.free_count;
        lent.free[count] = frame.0;
        lent.free_count += 1;
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        NonNull::new(self.frames[frame.0 as usize - 1].0.get().cast()).unwrap()
    }
}

/// Chunks, of which it has so many.
pub struct Chunks(pub AtomicUsize);

// SAFETY: fresh zeroed memory of the promised size and alignment, never freed.
unsafe impl ChunkSource for Chunks {
    fn chunk(&self) -> Option<NonNull<u8>> {
        self.0
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
            .ok()?;
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc_zeroed(Layout::from_size_align(CHUNK_BYTES, 4096).unwrap()) })
    }
}

/// Tables for `count` allocations. Miri finds no leak, since pools keep their chunks for ever.
pub fn with_tables(storage: &mut impl CompressedStorage, count: usize) {
    assert!(storage.reserve(&Chunks(AtomicUsize::new(8)), count as u32));
}

/// A host and a storage with tables for all of its frames.
pub fn three_slot(frames: usize) -> (Host, Box<ThreeSlot>) {
    with_host(ThreeSlot::new(), frames)
}

/// A host and a storage with tables for all of its frames.
pub fn with_host<S: CompressedStorage>(storage: S, frames: usize) -> (Host, Box<S>) {
    let mut storage = Box::new(storage);
    with_tables(&mut *storage, frames);
    (Host::new(frames), storage)
}
