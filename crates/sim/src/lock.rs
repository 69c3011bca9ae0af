//! The simulated machine's lock: whoever finds it taken sleeps until it is free.

use crate::inject::Kind;
use crate::schedule::{self, NOBODY, block, doze, fires, simulation, step};
use crate::trace::What;
use coldpress_arena::Zeroable;
use coldpress_engine::lock::HeldRanks;
use lock_api::{GuardNoSend, RawMutex};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A lock. Zero is an unlocked one; else whose it is, and whether somebody waits.
pub struct SimLock(AtomicU32);

const WAITED_FOR: u32 = 1 << 16;

/// How long who holds a lock may be stopped, in steps.
const STOPPED_STEPS: u64 = 300;

// SAFETY: zero is an unlocked lock.
unsafe impl Zeroable for SimLock {}

impl HeldRanks for SimLock {
    fn held() -> Option<&'static AtomicU32> {
        Some(schedule::held())
    }
}

impl SimLock {
    fn key(&self) -> u64 {
        (&raw const *self).addr() as u64
    }

    fn name(&self) -> u32 {
        // Not the address, which differs from run to run.
        0
    }
}

// SAFETY: simulated threads are coroutines of one thread, which change hands in `step` and `block`
// only: whoever finds zero and stores its name holds the lock alone.
unsafe impl RawMutex for SimLock {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to a new lock"
    )]
    const INIT: Self = Self(AtomicU32::new(0));
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        step(What::Lock, 0, 0, self.name());
        let me = simulation().current() as u32 + 1;
        while !self.try_lock() {
            let holder = self.0.load(Relaxed);
            assert!(holder & !WAITED_FOR != me, "a lock is taken twice");
            self.0.store(holder | WAITED_FOR, Relaxed);
            block(self.key(), None);
            if std::thread::panicking() {
                return;
            }
        }
        if me as usize != NOBODY + 1 && fires(Kind::LockPreempted) {
            doze(STOPPED_STEPS);
        }
    }

    fn try_lock(&self) -> bool {
        let free = self.0.load(Relaxed) == 0;
        if free {
            self.0.store(simulation().current() as u32 + 1, Relaxed);
        }
        free
    }

    unsafe fn unlock(&self) {
        if self.0.swap(0, Relaxed) & WAITED_FOR != 0 {
            schedule::wake(self.key());
        }
        step(What::Unlock, 0, 0, self.name());
    }
}
