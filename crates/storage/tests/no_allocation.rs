//! Promise: after `reserve`, storing, freeing and compacting never call an allocator (S4).
//!
//! The only test of its binary, so that no other thread allocates meanwhile; and only this
//! thread's allocations are counted.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use coldpress_storage::{
    CompressedStorage, Press, Reference, SizeClass, ThreeSlot, TwoSlot, write,
};

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

/// Stores, frees and compacts at random, and counts.
fn churn<S: CompressedStorage>(storage: S) {
    let frames = 2000;
    let (host, mut storage) = common::with_host(storage, frames);
    let mut objects = vec![None::<Reference>; frames * 3 / 2];
    let mut seed = 7_u64;
    let mut moved = 0;
    let before = COUNT.get();
    for step in 0..frames * 50 {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let index = (seed >> 40) as usize % objects.len();
        match objects[index].take() {
            Some(reference) => storage.free(&host, reference),
            None => {
                let len = 1 + (seed >> 20) as usize % 4096;
                objects[index] = storage.allocate(&host, len);
                if let Some(reference) = objects[index] {
                    // SAFETY: just allocated, and nobody else knows it.
                    unsafe { write(&host, reference, &[&[1]]) };
                }
            }
        }
        if step % 64 == 0 {
            let done = storage.compact(&host, 8192, &mut |from, to| {
                let object = objects.iter_mut().find(|object| **object == Some(from));
                *object.expect("stored") = Some(to);
                true
            });
            moved += done.objects;
        }
    }
    std::hint::black_box(storage.usage());
    assert_eq!(COUNT.get(), before, "{}", S::NAME);
    storage.check_invariants();
    storage.check_frames(&host);
    assert!(storage.usage().objects > frames / 4);
    let compacts = [SizeClass::NAME, Press::NAME].contains(&S::NAME);
    assert_eq!(moved != 0, compacts, "{}", S::NAME);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "counts allocations; the model tests make the same calls"
)]
fn storing_freeing_and_compacting_allocate_nothing() {
    churn(TwoSlot::new());
    churn(ThreeSlot::new());
    churn(SizeClass::new());
    churn(Press::new());
}
