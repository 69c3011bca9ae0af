//! Promise: after `reserve`, storing and freeing never call an allocator (S4).
//!
//! The only test of its binary, so that no other thread allocates meanwhile; and only this
//! thread's allocations are counted.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use coldpress_storage::{CompressedStorage, Reference, write};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract is that of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn storing_and_freeing_allocate_nothing() {
    let (host, mut storage) = common::three_slot(2000);
    let mut objects = [None::<Reference>; 3000];
    let mut seed = 7_u64;
    let before = COUNT.get();
    for _ in 0..100_000 {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let object = &mut objects[(seed >> 40) as usize % 3000];
        match object.take() {
            Some(reference) => storage.free(&host, reference),
            None => {
                let len = 1 + (seed >> 20) as usize % 4096;
                *object = storage.allocate(&host, len);
                if let Some(reference) = *object {
                    // SAFETY: just allocated, and nobody else knows it.
                    unsafe { write(&host, reference, &[&[1]]) };
                }
            }
        }
    }
    std::hint::black_box(storage.usage());
    assert_eq!(COUNT.get(), before);
    storage.check_invariants();
    assert!(storage.usage().objects > 1000);
}
