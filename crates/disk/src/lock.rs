//! The engine's lock: one of `parking_lot`, which sleeps where it has to wait.

use coldpress_arena::Zeroable;
use coldpress_engine::lock::HeldRanks;
use lock_api::{GuardSend, RawMutex};
use std::sync::atomic::AtomicU32;

/// A lock for which zeros are "free".
#[repr(transparent)]
pub(crate) struct HostLock(parking_lot::RawMutex);

// SAFETY: as large, and both plain bytes; compared when compiling.
const _: () = assert!(
    unsafe { std::mem::transmute::<parking_lot::RawMutex, u8>(parking_lot::RawMutex::INIT) } == 0
);

// SAFETY: zero is the value of a free lock, as was just compared; nothing to drop.
unsafe impl Zeroable for HostLock {}

thread_local! {
    /// Ranks held. Leaked, since a lock may be given back while the thread ends; debug builds only.
    static HELD: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
}

impl HeldRanks for HostLock {
    fn held() -> Option<&'static AtomicU32> {
        HELD.try_with(|held| *held).ok()
    }
}

// SAFETY: as the lock inside.
unsafe impl RawMutex for HostLock {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to a new lock
    const INIT: Self = Self(parking_lot::RawMutex::INIT);
    type GuardMarker = GuardSend;

    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.0.unlock() };
    }
}
