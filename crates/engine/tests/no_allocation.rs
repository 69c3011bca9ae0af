//! Promise: neither a fault nor a reclaim batch calls an allocator, and neither takes a chunk
//! once the tables are ready.
//!
//! A program of its own, for it has its own allocator; only this thread's allocations are counted.

use coldpress_engine::FaultOutcome;
use coldpress_machine::mapped::*;
use std::alloc::{GlobalAlloc, Layout, System as SystemAllocator};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract is that of this function.
        unsafe { SystemAllocator.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { SystemAllocator.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PAGES: u32 = 4096;

#[test]
fn faults_and_batches_allocate_nothing() {
    let s = system(1, PAGES as usize);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    s.machine.stock(PAGES as usize + 1024);
    let contents: Vec<_> = (0..64)
        .map(|n| match n % 8 {
            0 => content(Kind::Noise, n),
            1 => content(Kind::Zero, n),
            2 => content(Kind::Word(n), n),
            3 => content(Kind::ALL[7], n),
            _ => content(Kind::Text, n),
        })
        .collect();
    // One round of everything, in which tables grow.
    for index in 0..PAGES {
        s.write(&mut w, 1, index, &contents[index as usize % 64]);
    }
    s.send_away(&mut r);
    s.machine.armed.store(true, Relaxed);
    let before = COUNT.get();
    let (mut faults, mut batches) = (0, 0);
    let mut outcomes = [0; 4];
    while faults < 100_000 {
        for index in 0..PAGES {
            if s.machine.is_present(1, index) {
                continue;
            }
            let outcome = s.fault(&mut w, 1, index);
            outcomes[match outcome {
                FaultOutcome::Decompressed => 0,
                FaultOutcome::SameFilled => 1,
                FaultOutcome::Zero => 2,
                _ => 3,
            }] += 1;
            faults += 1;
            let page = &contents[index as usize % 64];
            if outcome != FaultOutcome::Zero {
                assert!(s.machine.place(1, index).page.as_deref() == Some(page));
            } else {
                s.with(&mut w, (1, index), |bytes| *bytes = *page);
            }
        }
        s.cool();
        while s.reclaim(&mut r, 384).taken > 0 {
            batches += 1;
        }
        // Some fresh memory, the next time.
        let dropped = faults % 60 * 64;
        s.decommit(1, dropped, dropped + 64);
    }
    assert_eq!(COUNT.get(), before, "allocations");
    assert!(outcomes[0] > 10_000 && outcomes[1] > 10_000 && outcomes[2] > 500);
    assert_eq!(outcomes[3], 0);
    println!("no allocation in {faults} faults and {batches} batches");
}
