//! The machine's lock: spins, and tells when it does so for ever.

use coldpress_arena::Zeroable;
use coldpress_engine::lock::HeldRanks;
use lock_api::{GuardSend, RawMutex};
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

pub struct SpinLock(AtomicBool);

thread_local! {
    /// Ranks held. Leaked: a lock may be given back while the thread ends.
    static HELD: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
}

impl HeldRanks for SpinLock {
    fn held() -> Option<&'static AtomicU32> {
        Some(HELD.with(|held| *held))
    }
}

// SAFETY: zero is `false`: not locked.
unsafe impl Zeroable for SpinLock {}

// SAFETY: whoever turns `false` into `true` holds the lock, alone, until it is `false` again.
unsafe impl RawMutex for SpinLock {
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        for _ in 0..100 {
            if self.try_lock() {
                return;
            }
            std::hint::spin_loop();
        }
        let since = Instant::now();
        while !self.try_lock() {
            assert!(since.elapsed() < Duration::from_secs(20), "a deadlock");
            std::thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        !self.0.load(Relaxed) && !self.0.swap(true, Acquire)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Release);
    }
}
