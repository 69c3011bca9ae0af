//! A host for storages under test: frames in one reservation, chunks for their tables.
//!
//! The frames are touched once, before anything is timed, and serve one storage after the other:
//! otherwise storing would be charged with the kernel's zeroing of fresh pages.

use coldpress_arena::{CHUNK_BYTES, ChunkSource};
use coldpress_storage::{FRAME_BYTES, FrameIndex, FrameSource};
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Anonymous memory without backing until it is touched.
struct Reservation {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory; who may use which part is the business of the host.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    fn new(bytes: usize) -> Self {
        let bytes = bytes.max(FRAME_BYTES);
        // SAFETY: a fresh private mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED, "no address space");
        let start = NonNull::new(start.cast()).expect("no mapping begins at 0");
        Self { start, bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and nobody uses it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Memory for frames, all of it touched.
pub(crate) struct Frames {
    memory: Reservation,
    count: usize,
}

impl Frames {
    /// So many frames.
    pub(crate) fn new(count: usize) -> Self {
        let memory = Reservation::new(count * FRAME_BYTES);
        for frame in 0..count {
            // SAFETY: inside the reservation, which nobody else knows yet.
            unsafe { memory.start.add(frame * FRAME_BYTES).write_volatile(0) };
        }
        Self { memory, count }
    }
}

struct Lent {
    free: Vec<u32>,
    high_water: u32,
}

/// Lends frames and chunks to one storage. Dropped after the storage that borrowed them.
pub(crate) struct Host<'a> {
    /// Borrowed mutably, so that only one host lends them at a time.
    frames: &'a mut Frames,
    chunks: Reservation,
    chunks_given: AtomicUsize,
    /// Guards which frames are lent.
    lent: Mutex<Lent>,
}

/// Chunks that a host has: tables for four million frames at 256 bytes.
const CHUNKS: usize = 1024;

impl<'a> Host<'a> {
    /// A host that has lent none of the frames yet.
    pub(crate) fn new(frames: &'a mut Frames) -> Self {
        Self {
            frames,
            chunks: Reservation::new(CHUNKS * CHUNK_BYTES),
            chunks_given: AtomicUsize::new(0),
            lent: Mutex::new(Lent {
                free: Vec::new(),
                high_water: 0,
            }),
        }
    }

    /// Frames that are lent now.
    pub(crate) fn lent_frames(&self) -> usize {
        let lent = self.lent.lock().expect("not poisoned");
        lent.high_water as usize - lent.free.len()
    }
}

// SAFETY: each index from 1 up stands for 4096 bytes of the reservation of its own, readable,
// writable and initialised; `lent` sees to it that none is lent twice.
unsafe impl FrameSource for Host<'_> {
    fn allocate(&self) -> Option<FrameIndex> {
        let mut lent = self.lent.lock().expect("not poisoned");
        if let Some(frame) = lent.free.pop() {
            return Some(FrameIndex(frame));
        }
        if lent.high_water as usize == self.frames.count {
            return None;
        }
        lent.high_water += 1;
        Some(FrameIndex(lent.high_water))
    }

    fn free(&self, frame: FrameIndex) {
        let mut lent = self.lent.lock().expect("not poisoned");
        lent.free.push(frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        let offset = frame.0.wrapping_sub(1) as usize * FRAME_BYTES;
        debug_assert!(offset < self.frames.memory.bytes);
        // SAFETY: a frame that is lent lies inside the reservation.
        unsafe { self.frames.memory.start.add(offset) }
    }
}

// SAFETY: each chunk is a part of its own of the reservation, aligned to pages and zeroed by the
// kernel; the host outlives the storages that it is given to.
unsafe impl ChunkSource for Host<'_> {
    fn chunk(&self) -> Option<NonNull<u8>> {
        let given = self.chunks_given.fetch_add(1, Relaxed);
        // SAFETY: inside the reservation, as just checked.
        (given < CHUNKS).then(|| unsafe { self.chunks.start.add(given * CHUNK_BYTES) })
    }
}
