//! Promise: the frame budget, its event and its waits behave as the cases of Zircon's physical memory
//! tests ask that concern them (suite `pmm`), each written anew; so do freed frames that are checked,
//! and references packed into a few bits. What is physical memory management itself has no like here.

use crate::spin_lock::SpinLock;
use coldpress_engine::frame_budget::{FrameBudget, Refused, Tell, Wait};
use coldpress_engine::freed_frames::{CheckedFrames, FreedFill};
use coldpress_storage::{FRAME_BYTES, FrameIndex, FrameSource, Reference};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

type TestBudget = FrameBudget<SpinLock>;

const FRAMES: u64 = 64;
/// Below so many free frames the event is due.
const LOW: u64 = FRAMES / 2;
/// Below so many, those that can wait are held.
const HOLD: u64 = FRAMES / 4;

const EVENT: Tell = Tell {
    event: true,
    wake: false,
};

fn nothing(tell: Tell) {
    assert_eq!(tell, Tell::default());
}

/// A budget that threads can wait for.
struct Waiting {
    budget: TestBudget,
    woken: (Mutex<()>, Condvar),
    waiters: AtomicU32,
}

impl Waiting {
    fn new() -> Self {
        let budget = TestBudget::new(FRAMES);
        nothing(budget.watch(LOW, u64::MAX, HOLD).unwrap());
        Self {
            budget,
            woken: Default::default(),
            waiters: AtomicU32::new(0),
        }
    }

    /// Takes a frame, waiting until it may. `false`: the time was over before.
    fn take(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let epoch = self.budget.epoch();
            match self.budget.take(1, Wait::Allowed) {
                Ok(_) => return true,
                Err(Refused::NoFrames) => return false,
                Err(Refused::Hold) => {}
            }
            let mut asleep = self.woken.0.lock().unwrap();
            self.waiters.fetch_add(1, Relaxed);
            while self.budget.epoch() == epoch && Instant::now() < end {
                let left = end.saturating_duration_since(Instant::now());
                asleep = self.woken.1.wait_timeout(asleep, left).unwrap().0;
            }
            self.waiters.fetch_sub(1, Relaxed);
            if self.budget.epoch() == epoch {
                return false;
            }
        }
    }

    /// Does what the budget tells.
    fn obey(&self, tell: Tell) {
        if tell.wake {
            let _asleep = self.woken.0.lock().unwrap();
            self.woken.1.notify_all();
        }
    }

    fn until_waiting(&self, waiters: u32) {
        while self.waiters.load(Relaxed) < waiters {
            std::thread::yield_now();
        }
    }
}

const AT_ONCE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(30);

#[test]
fn pmm_node_oversized_alloc_test() {
    let budget = TestBudget::new(FRAMES);
    assert_eq!(
        budget.take(FRAMES + 1, Wait::Forbidden),
        Err(Refused::NoFrames)
    );
    assert_eq!(budget.free(), FRAMES, "none was taken");
    nothing(budget.take(FRAMES, Wait::Forbidden).unwrap());
    assert_eq!(budget.take(1, Wait::Forbidden), Err(Refused::NoFrames));
    nothing(budget.take(0, Wait::Forbidden).unwrap());
}

#[test]
fn pmm_node_free_mem_event_test() {
    let budget = TestBudget::new(FRAMES);
    // A range must hold what is free now.
    assert_eq!(budget.watch(FRAMES + 1, u64::MAX, 0), None);
    assert_eq!(budget.watch(0, FRAMES - 1, 0), None);
    nothing(budget.watch(FRAMES, u64::MAX, 0).unwrap());
    nothing(budget.watch(0, FRAMES, 0).unwrap());
    nothing(budget.watch(LOW, u64::MAX, 0).unwrap());
    // A refused range does not replace the one that stands.
    assert_eq!(budget.watch(0, 1, 0), None);
    for _ in LOW..FRAMES {
        nothing(budget.take(1, Wait::Forbidden).unwrap());
    }
    assert_eq!(budget.take(1, Wait::Forbidden), Ok(EVENT));
    // Once.
    nothing(budget.give(1));
    nothing(budget.take(1, Wait::Forbidden).unwrap());
    nothing(budget.take(3, Wait::Forbidden).unwrap());
    // The way back has its own.
    nothing(budget.watch(0, FRAMES - 1, 0).unwrap());
    let taken = FRAMES - budget.free();
    nothing(budget.give(taken - 1));
    assert_eq!(budget.give(1), EVENT);
}

#[test]
fn pmm_node_low_mem_alloc_failure_test() {
    let w = Waiting::new();
    let many = FRAMES - HOLD + 1;
    assert_eq!(w.budget.take(many, Wait::Forbidden), Ok(EVENT));
    assert_eq!(w.budget.take(1, Wait::Allowed), Err(Refused::Hold));
    assert!(!w.take(Duration::from_millis(10)), "waits, in vain");
    nothing(w.budget.take(1, Wait::Forbidden).unwrap());
    // Frames that come back do not end it; who reclaims does.
    nothing(w.budget.give(many + 1));
    assert_eq!(w.budget.take(1, Wait::Allowed), Err(Refused::Hold));
    let tell = w.budget.watch(LOW, u64::MAX, HOLD).unwrap();
    assert!(tell.wake);
    w.obey(tell);
    assert!(w.take(AT_ONCE));
    // A bound so high that one frame is enough to get below it.
    let w = Waiting::new();
    nothing(w.budget.watch(FRAMES, u64::MAX, FRAMES).unwrap());
    assert!(!w.budget.holds());
    assert_eq!(w.budget.take(1, Wait::Forbidden), Ok(EVENT));
    assert_eq!(w.budget.take(1, Wait::Allowed), Err(Refused::Hold));
    assert!(!w.take(Duration::from_millis(10)));
}

#[test]
fn pmm_node_explicit_should_wait_test() {
    let w = Waiting::new();
    assert!(w.take(AT_ONCE));
    w.budget.hold();
    assert!(w.budget.holds());
    assert_eq!(w.budget.take(1, Wait::Allowed), Err(Refused::Hold));
    assert!(!w.take(Duration::from_millis(10)), "waits, in vain");
    nothing(w.budget.take(1, Wait::Forbidden).unwrap());
    let tell = w.budget.watch(LOW, u64::MAX, HOLD).unwrap();
    assert!(tell.wake && !w.budget.holds());
    assert!(w.take(AT_ONCE));
    // Nobody to wake: nobody was held.
    nothing(w.budget.watch(LOW, u64::MAX, HOLD).unwrap());
}

#[test]
fn pmm_node_stop_returning_should_wait_test() {
    let w = Waiting::new();
    w.budget.hold();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| w.take(LONG));
        w.until_waiting(1);
        w.obey(w.budget.never_hold());
        assert!(waiter.join().unwrap(), "woken, and served");
    });
    w.budget.hold();
    assert!(!w.budget.holds());
    let free = w.budget.free();
    assert!(w.budget.take(free - 1, Wait::Allowed).is_ok());
    assert!(w.take(AT_ONCE), "the last one, too");
    assert_eq!(w.budget.take(1, Wait::Allowed), Err(Refused::NoFrames));
}

#[test]
fn pmm_node_stop_returning_should_wait_concurrent_test() {
    let w = Waiting::new();
    w.budget.hold();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..8).map(|_| scope.spawn(|| w.take(LONG))).collect();
        w.until_waiting(8);
        w.obey(w.budget.never_hold());
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
    });
    assert_eq!(w.budget.free(), FRAMES - 8);
}

/// Three frames, lent in the order in which they were given back.
struct Frames {
    memory: NonNull<[u8; FRAME_BYTES]>,
    free: Mutex<Vec<u32>>,
}

// SAFETY: the memory behind the pointer belongs to whoever borrows a frame.
unsafe impl Sync for Frames {}

impl Frames {
    fn new() -> Self {
        let memory = Box::leak(Box::new([[0; FRAME_BYTES]; 3]));
        Self {
            memory: NonNull::from(memory).cast(),
            free: Mutex::new(vec![1, 2, 3]),
        }
    }
}

// SAFETY: each index stands for memory of its own. (It is not aligned to a page: nobody here asks for
// that.)
unsafe impl FrameSource for Frames {
    fn allocate(&self) -> Option<FrameIndex> {
        let mut free = self.free.lock().unwrap();
        (!free.is_empty()).then(|| FrameIndex(free.remove(0)))
    }

    fn free(&self, frame: FrameIndex) {
        self.free.lock().unwrap().insert(0, frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        // SAFETY: inside the three.
        unsafe { self.memory.add(frame.0 as usize - 1).cast() }
    }
}

#[test]
fn pmm_checker_test() {
    const FILLED: usize = 64;
    let poke = |frames: &CheckedFrames<Frames>, frame, at: usize, value: u8| {
        // SAFETY: inside the frame; it is nobody's, which is the mistake that is looked for.
        unsafe { frames.address(frame).add(at).write(value) };
    };
    for (at, found) in [
        (0, true),
        (FILLED - 1, true),
        (FILLED, false),
        (4095, false),
    ] {
        let frames = CheckedFrames::new(Frames::new(), FreedFill::new(FILLED).unwrap());
        let frame = frames.allocate().unwrap();
        poke(&frames, frame, 17, 99);
        // What its borrower has written is lost and no mistake.
        frames.free(frame);
        assert_eq!(frames.allocate(), Some(frame));
        frames.free(frame);
        poke(&frames, frame, at, 1);
        let lent = catch_unwind(AssertUnwindSafe(|| frames.allocate()));
        assert_eq!(lent.is_err(), found, "byte {at}");
        if let Err(message) = lent {
            let text = message.downcast::<String>().unwrap();
            assert!(text.contains(&format!("frame 1 was written to at byte {at}")));
        }
    }
    let (mut frame, fill) = ([0; FRAME_BYTES], FreedFill::WHOLE);
    assert_eq!(fill.damage(&frame), Some(0));
    fill.fill(&mut frame);
    assert_eq!(fill.damage(&frame), None);
    frame[4095] = 0;
    assert_eq!(fill.damage(&frame), Some(4095));
}

#[test]
fn pmm_checker_is_valid_fill_size_test() {
    for bytes in 0..=2 * FRAME_BYTES {
        let valid = bytes > 0 && bytes <= FRAME_BYTES && bytes % 8 == 0;
        assert_eq!(FreedFill::new(bytes).is_some(), valid, "{bytes}");
    }
}

#[test]
fn pmm_page_to_from_index_test() {
    // References to places in frames, packed, as entries and owners of stored objects hold them.
    let mut seen = HashSet::new();
    for frame in [1, 2, 0xFFFF, 0x1_0000, u32::MAX - 1, u32::MAX] {
        for (offset, len) in [(0, 1), (0, 4096), (4088, 1), (64, 64)] {
            let reference = Reference::new(FrameIndex(frame), offset, len, 1);
            let bits = reference.to_bits();
            assert_eq!(Reference::from_bits(bits), Some(reference));
            let back = (reference.frame().0, reference.offset(), reference.len());
            assert_eq!(back, (frame, offset, len));
            assert!(seen.insert(bits), "distinct");
            assert_eq!(bits << 3 >> 3, bits, "three bits are left for the type");
        }
    }
}

#[test]
fn a_budget_is_kept_by_threads_that_take_and_give() {
    let w = Waiting::new();
    // What threads hold at this moment, as they themselves count it.
    let held = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (w, held) = (&w, &held);
            scope.spawn(move || {
                for n in 0..2000u64 {
                    let frames = (n * 7 + thread) % 40;
                    if w.budget.take(frames, Wait::Forbidden).is_ok() {
                        let before = held.fetch_add(frames as u32, Relaxed);
                        assert!(u64::from(before) + frames <= FRAMES, "over the budget");
                        std::thread::yield_now();
                        held.fetch_sub(frames as u32, Relaxed);
                        w.obey(w.budget.give(frames));
                    }
                }
            });
        }
    });
    assert_eq!(w.budget.free(), FRAMES);
}
