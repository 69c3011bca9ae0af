//! Index-addressed pools in memory that a host hands out in chunks.
//!
//! The engine and the storage keep all their tables in [`Pool`]s. A pool never calls an
//! allocator: it grows by whole chunks of [`CHUNK_BYTES`] from a [`ChunkSource`], only in
//! [`Pool::reserve`], which is called where waiting for memory is allowed. Taking an item
//! ([`Pool::take`]) never grows, so that the fault path cannot allocate.
//!
//! ```text
//!  Pool<T>            chunk 0                chunk 1
//!  directory ──────▶ │ T │ T │ T │ … │      │ T │ T │ …
//!  [ptr; CHUNKS]      item 1  2   3          per chunk: CHUNK_BYTES / size_of::<T>()
//! ```
//!
//! Invariants:
//! * I1 An item index is at least 1 and below the number of items ever handed out; 0 is "none",
//!   which lets indices be stored in zeroed memory. Item 0 exists but is never handed out.
//! * I2 A chunk, once in the directory, stays there at the same address until the pool's user
//!   is gone; so a reference to an item stays valid, and `&T` can be given out freely.
//! * I3 Chunks arrive zeroed, and all-zero bytes are a valid `T` ([`Zeroable`]); `T` is `Sync`,
//!   so shared references from many threads are sound. What the fields mean to each other is
//!   the business of the lock that the user of the pool documents.
//!
//! `take`, `give` and `reserve` must be serialised by the caller (the pools of the engine sit
//! under its locks). If they are not, items can be handed out twice, but memory stays sound:
//! every field of the pool is atomic.
#![no_std]
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Bytes that a [`ChunkSource`] hands out at a time. They are virtual: a host that backs them
/// lazily pays only for the pages that a pool has touched.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Chunks that one pool can hold: 4 GiB of items.
const CHUNKS: usize = 4096;

/// A host that hands out memory for tables.
///
/// # Safety
/// [`chunk`](ChunkSource::chunk) returns memory of [`CHUNK_BYTES`] bytes, aligned to 4,096, all
/// zero, that nothing else uses and that stays valid as long as any pool that holds it is used.
pub unsafe trait ChunkSource {
    /// A fresh chunk, or `None` where there is no memory.
    fn chunk(&self) -> Option<NonNull<u8>>;
}

/// Types for which all-zero bytes are a valid value.
///
/// # Safety
/// All-zero bytes must be a valid value of the type, and it must not have drop glue.
pub unsafe trait Zeroable {}

// SAFETY: no bytes, no drop glue.
unsafe impl Zeroable for () {}
// SAFETY: any bytes are valid, no drop glue.
unsafe impl Zeroable for u8 {}
// SAFETY: as for its items, of which it is made.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

/// Items that a pool can keep on its free list: they lend one word of theirs while unused.
pub trait Link {
    /// The word that links free items. Its content is lost while the item is free.
    fn link(&self) -> &AtomicU32;
}

/// A growing table of `T`, addressed by index.
pub struct Pool<T> {
    directory: [AtomicPtr<T>; CHUNKS],
    /// First free item, or 0.
    free: AtomicU32,
    /// Items on the free list.
    free_count: AtomicU32,
    /// Items handed out so far, item 0 included.
    used: AtomicU32,
    /// Items that the chunks hold.
    capacity: AtomicU32,
    _items: PhantomData<T>,
}

impl<T: Zeroable + Link + Sync> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Zeroable + Link + Sync> Pool<T> {
    const PER_CHUNK: usize = CHUNK_BYTES / size_of::<T>();

    /// An empty pool. It holds no chunk yet.
    pub const fn new() -> Self {
        assert!(align_of::<T>() <= 4096 && size_of::<T>() > 0);
        Self {
            directory: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
            free: AtomicU32::new(0),
            free_count: AtomicU32::new(0),
            used: AtomicU32::new(1),
            capacity: AtomicU32::new(0),
            _items: PhantomData,
        }
    }

    /// Item `index`.
    ///
    /// # Panics
    /// If no item with that index can exist (I1).
    #[inline]
    pub fn get(&self, index: u32) -> &T {
        let index = index as usize;
        let chunk = self.directory[index / Self::PER_CHUNK].load(Acquire);
        assert!(!chunk.is_null(), "pool index beyond its chunks");
        // SAFETY: I2: the chunk is valid and stays; the offset is below PER_CHUNK items, all of
        // which lie inside CHUNK_BYTES; I3: zeroed or written-to memory is a valid T, and T is Sync.
        unsafe { &*chunk.add(index % Self::PER_CHUNK) }
    }

    /// Items that can be taken without growing.
    pub fn available(&self) -> u32 {
        let untouched = self
            .capacity
            .load(Relaxed)
            .saturating_sub(self.used.load(Relaxed));
        self.free_count.load(Relaxed) + untouched
    }

    /// Items that are in use.
    pub fn in_use(&self) -> u32 {
        self.used.load(Relaxed) - 1 - self.free_count.load(Relaxed)
    }

    /// Items ever handed out: the highest index there is.
    pub fn handed_out(&self) -> u32 {
        self.used.load(Relaxed) - 1
    }

    /// Bytes of items ever handed out: what a lazily backed host has paid for.
    pub fn touched_bytes(&self) -> usize {
        self.used.load(Relaxed) as usize * size_of::<T>()
    }

    /// Grows until at least `items` can be taken without growing. `false`: no memory, and what
    /// was there stays as it was. May take as long as the host takes; never on the fault path.
    pub fn reserve(&self, source: &impl ChunkSource, items: u32) -> bool {
        while self.available() < items {
            let capacity = self.capacity.load(Relaxed) as usize;
            let slot = capacity / Self::PER_CHUNK;
            let Some(entry) = self.directory.get(slot) else {
                return false;
            };
            let Some(chunk) = source.chunk() else {
                return false;
            };
            entry.store(chunk.as_ptr().cast(), Release);
            self.capacity
                .store((capacity + Self::PER_CHUNK) as u32, Relaxed);
        }
        true
    }

    /// Takes an item, or `None` where [`reserve`](Self::reserve) has to be called first. The
    /// item is as its last user left it (all zero the first time), but for the [`Link`] word.
    pub fn take(&self) -> Option<u32> {
        let free = self.free.load(Relaxed);
        if free != 0 {
            self.free
                .store(self.get(free).link().load(Relaxed), Relaxed);
            self.free_count.fetch_sub(1, Relaxed);
            return Some(free);
        }
        let used = self.used.load(Relaxed);
        if used >= self.capacity.load(Relaxed) {
            return None;
        }
        self.used.store(used + 1, Relaxed);
        Some(used)
    }

    /// Gives item `index` back.
    pub fn give(&self, index: u32) {
        debug_assert!(index != 0 && index < self.used.load(Relaxed));
        self.get(index)
            .link()
            .store(self.free.load(Relaxed), Relaxed);
        self.free.store(index, Relaxed);
        self.free_count.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::alloc::{Layout, alloc_zeroed};
    use std::cell::Cell;
    use std::collections::HashSet;
    use std::vec::Vec;

    struct Source {
        left: Cell<usize>,
    }

    // SAFETY: fresh zeroed memory of the promised size and alignment, never freed.
    unsafe impl ChunkSource for Source {
        fn chunk(&self) -> Option<NonNull<u8>> {
            self.left.set(self.left.get().checked_sub(1)?);
            // SAFETY: the layout is not empty.
            NonNull::new(unsafe {
                alloc_zeroed(Layout::from_size_align(CHUNK_BYTES, 4096).unwrap())
            })
        }
    }

    #[repr(C)]
    struct Item {
        link: AtomicU32,
        value: AtomicU32,
    }
    // SAFETY: two atomics; zero is valid.
    unsafe impl Zeroable for Item {}
    impl Link for Item {
        fn link(&self) -> &AtomicU32 {
            &self.link
        }
    }

    #[test]
    fn takes_every_item_once_and_reuses_what_is_given_back() {
        let pool = Pool::<Item>::new();
        let source = Source { left: Cell::new(2) };
        assert_eq!(pool.take(), None, "an empty pool does not grow by itself");
        assert!(pool.reserve(&source, 200_000));
        let items: Vec<u32> = (0..200_000).map(|_| pool.take().unwrap()).collect();
        assert!(!items.contains(&0));
        assert_eq!(items.iter().collect::<HashSet<_>>().len(), items.len());
        for &i in &items {
            pool.get(i).value.store(i, Relaxed);
        }
        assert!(items.iter().all(|&i| pool.get(i).value.load(Relaxed) == i));
        for &i in &items[..1000] {
            pool.give(i);
        }
        assert_eq!(pool.in_use(), 199_000);
        let again: HashSet<u32> = (0..1000).map(|_| pool.take().unwrap()).collect();
        assert_eq!(again, items[..1000].iter().copied().collect());
    }

    #[test]
    fn refuses_to_grow_without_memory_and_keeps_what_it_has() {
        let pool = Pool::<Item>::new();
        let source = Source { left: Cell::new(1) };
        assert!(pool.reserve(&source, 10));
        let before = pool.available();
        assert!(!pool.reserve(&source, before + 1));
        assert_eq!(pool.available(), before);
    }
}
