//! What the tests of every machine, and the examples, use: who works on pages, and interruptions.
use coldpress_arena::{CHUNK_BYTES, Zeroable};
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_engine::{Reclaimer, Worker};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// LZ4: that of C but for Miri, which runs none.
#[cfg(not(miri))]
pub type Lz4 = coldpress_codec::Lz4;
/// As above.
#[cfg(miri)]
pub type Lz4 = coldpress_codec::Lz4Rust;

/// Something that a test wants done once, in the middle of something.
#[derive(Default)]
pub struct Hook(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Hook {
    pub fn set(&self, act: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(act));
    }

    pub fn is_set(&self) -> bool {
        self.0.lock().unwrap().is_some()
    }

    /// Runs what is set, if it is. Whether it was.
    pub fn run(&self) -> bool {
        let act = self.0.lock().unwrap().take();
        act.map(|act| act()).is_some()
    }
}

/// Memory of zeros, never freed.
pub fn zeroed<T: Zeroable>() -> &'static mut T {
    let memory = Box::leak(Box::<T>::new_uninit());
    // SAFETY: zero is valid (`Zeroable`).
    unsafe {
        memory.as_mut_ptr().write_bytes(0, 1);
        memory.assume_init_mut()
    }
}

/// Who restores pages; one at a time has an id.
pub fn worker<C: PageCodec>(id: u16) -> Worker<C> {
    Worker::new(id, zeroed())
}

/// Who compresses pages, with an id of its own as a worker and staging slots of its own.
pub fn reclaimer_with<C: PageCodec>(id: u16, slots: Range<u16>) -> Reclaimer<C> {
    let buffer = Box::leak(Box::new([0; 4096]));
    Reclaimer::new(zeroed(), buffer, worker(id), slots)
}

/// A counter's value.
pub fn value(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

/// A chunk for tables: fresh zeroed memory of [`CHUNK_BYTES`], page-aligned, never freed.
pub fn fresh_chunk() -> Option<NonNull<u8>> {
    Some(untouched(CHUNK_BYTES))
}

/// So many zeroed bytes, page-aligned, never freed. Of that memory, only what is touched is made: asked for the
/// alignment, the allocator would clear it all.
pub fn untouched(bytes: usize) -> NonNull<u8> {
    let memory = vec![0_u8; bytes + PAGE_SIZE].leak();
    let skipped = memory.as_ptr().align_offset(PAGE_SIZE);
    NonNull::from(&mut memory[skipped..]).cast()
}

/// [`fresh_chunk`], of which so many are `left`.
pub fn next_chunk(left: &AtomicUsize) -> Option<NonNull<u8>> {
    let take = |left: usize| left.checked_sub(1);
    left.fetch_update(Relaxed, Relaxed, take).ok()?;
    fresh_chunk()
}
