//! A lock with a rank ([`ranks`](crate::machine::ranks)), which debug builds check.

use crate::machine::futex::FutexLock;
use crate::machine::linux::Linux;
use crate::machine::os::Os;
use coldpress_engine::lock;
use lock_api::RawMutex;

/// A [`FutexLock`] of this rank.
#[derive(Debug)]
#[repr(transparent)]
pub struct RankedLock<const RANK: u32, O: Os = Linux>(FutexLock<O>);

impl<const RANK: u32, O: Os> RankedLock<RANK, O> {
    /// Frees the lock by force: for the child of a fork, in which its holder does not exist.
    pub fn reset(&self) {
        self.0.reset();
    }
}

// SAFETY: the lock inside excludes.
unsafe impl<const RANK: u32, O: Os> RawMutex for RankedLock<RANK, O> {
    #[allow(clippy::declare_interior_mutable_const)] // the constant is lock_api's way to a new lock
    const INIT: Self = Self(FutexLock::INIT);

    type GuardMarker = <FutexLock<O> as RawMutex>::GuardMarker;

    #[inline]
    fn lock(&self) {
        lock::take::<FutexLock<O>>(RANK);
        self.0.lock();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let taken = self.0.try_lock();
        if taken {
            lock::take_tried::<FutexLock<O>>(RANK);
        }
        taken
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds it.
        unsafe { self.0.unlock() };
        lock::give::<FutexLock<O>>(RANK);
    }
}
