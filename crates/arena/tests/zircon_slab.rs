//! Promise: a pool behaves as the cases of Zircon's slab allocator tests ask (suite `slab`), each
//! written anew. A slab is a chunk here. Where Zircon gives a slab back as soon as it is empty, a pool
//! keeps its chunks (invariant I2: items stay where they are for as long as the pool lives) and uses
//! them again, so that never more are taken than the most items at one time need: that is no test of
//! Zircon's case.

use coldpress_arena::{CHUNK_BYTES, ChunkSource, Link, Pool, Zeroable};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Hands out chunks, at most so many, and counts them.
struct Source {
    most: usize,
    chunks: RefCell<Vec<NonNull<u8>>>,
}

impl Source {
    fn new(most: usize) -> Self {
        Self {
            most,
            chunks: RefCell::default(),
        }
    }

    fn layout() -> Layout {
        Layout::from_size_align(CHUNK_BYTES, 4096).unwrap()
    }

    fn handed_out(&self) -> usize {
        self.chunks.borrow().len()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        for chunk in self.chunks.borrow().iter() {
            // SAFETY: allocated with this layout; the pool is dropped before its source.
            unsafe { dealloc(chunk.as_ptr(), Self::layout()) };
        }
    }
}

// SAFETY: fresh zeroed memory of the promised size and alignment, freed when its pool is gone.
unsafe impl ChunkSource for Source {
    fn chunk(&self) -> Option<NonNull<u8>> {
        let mut chunks = self.chunks.borrow_mut();
        if chunks.len() == self.most {
            return None;
        }
        // SAFETY: the layout is not empty.
        let chunk = NonNull::new(unsafe { alloc_zeroed(Self::layout()) })?;
        chunks.push(chunk);
        Some(chunk)
    }
}

#[repr(C)]
struct Item {
    link: AtomicU32,
    padding: AtomicU32,
    value: AtomicU64,
    more: [AtomicU64; 62],
}

// SAFETY: atomics; zero is valid.
unsafe impl Zeroable for Item {}

impl Link for Item {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

/// Items in a chunk.
const A_CHUNK: usize = CHUNK_BYTES / size_of::<Item>();

/// Takes an item, growing if need be, and writes a value that is its own.
fn take(pool: &Pool<Item>, source: &Source) -> Option<u32> {
    if !pool.reserve(source, 1) {
        return None;
    }
    let index = pool.take()?;
    let item = pool.get(index);
    item.value.store(u64::from(index) * 3, Relaxed);
    item.more[61].store(u64::from(index) * 5, Relaxed);
    Some(index)
}

fn give(pool: &Pool<Item>, index: u32) {
    let item = pool.get(index);
    assert_eq!(item.value.load(Relaxed), u64::from(index) * 3);
    assert_eq!(item.more[61].load(Relaxed), u64::from(index) * 5);
    pool.give(index);
}

#[test]
fn slab_smoke_test() {
    let (source, pool) = (Source::new(1), Pool::<Item>::new());
    assert_eq!((pool.in_use(), source.handed_out()), (0, 0));
    let item = take(&pool, &source).unwrap();
    assert_eq!((pool.in_use(), source.handed_out()), (1, 1));
    give(&pool, item);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn an_emptied_chunk_is_used_again() {
    // What was in an emptied chunk is all there is to take again, before another chunk is asked for.
    let (source, pool) = (Source::new(2), Pool::<Item>::new());
    let first: Vec<u32> = (0..A_CHUNK - 1)
        .map(|_| take(&pool, &source).unwrap())
        .collect();
    assert_eq!(source.handed_out(), 1, "item 0 is never handed out");
    let second = take(&pool, &source).unwrap();
    assert_eq!(source.handed_out(), 2);
    for &item in &first {
        give(&pool, item);
    }
    assert_eq!(pool.in_use(), 1);
    assert_eq!(pool.available() as usize, 2 * A_CHUNK - 2);
    let again: HashSet<u32> = (0..A_CHUNK - 1)
        .map(|_| take(&pool, &source).unwrap())
        .collect();
    assert_eq!(again, first.into_iter().collect());
    assert_eq!(source.handed_out(), 2);
    give(&pool, second);
}

#[test]
fn slab_no_leak_test() {
    let (source, pool) = (Source::new(usize::MAX), Pool::<Item>::new());
    let (mut taken, mut most, mut state) = (Vec::new(), 0, 0x9E37_79B9u64);
    for _ in 0..200_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Up and down again, in waves.
        let wave = (state >> 20) % 8192 > taken.len() as u64;
        if wave || taken.is_empty() {
            taken.push(take(&pool, &source).unwrap());
        } else {
            let at = (state >> 8) as usize % taken.len();
            give(&pool, taken.swap_remove(at));
        }
        most = most.max(taken.len());
        assert_eq!(pool.in_use() as usize, taken.len());
        assert!(source.handed_out() <= (most + 1).div_ceil(A_CHUNK));
    }
    assert!(most > 2 * A_CHUNK, "several chunks were used");
    for item in taken {
        give(&pool, item);
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn slab_max_id_test() {
    let chunks = 3;
    let (source, pool) = (Source::new(chunks), Pool::<Item>::new());
    let items: Vec<u32> = std::iter::from_fn(|| take(&pool, &source)).collect();
    assert_eq!(items.len(), chunks * A_CHUNK - 1);
    assert_eq!(items.iter().collect::<HashSet<_>>().len(), items.len());
    assert_eq!(pool.handed_out(), *items.iter().max().unwrap());
    assert_eq!(pool.take(), None, "one more is refused");
    assert!(!pool.reserve(&source, 1));
    for &item in items.iter().rev() {
        give(&pool, item);
    }
    assert_eq!(pool.in_use(), 0);
    assert_eq!(pool.available() as usize, items.len());
}
