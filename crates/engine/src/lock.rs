//! A mutex over the host's raw lock.
//!
//! Thinner than `lock_api::Mutex` only in that it can be reset in the child of a fork.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use lock_api::RawMutex;

/// A value behind a lock.
pub(crate) struct Lock<R, T> {
    raw: UnsafeCell<R>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only by the holder of the raw lock, one thread at a time.
unsafe impl<R: Send + Sync, T: Send> Sync for Lock<R, T> {}

impl<R: RawMutex, T> Lock<R, T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            raw: UnsafeCell::new(R::INIT),
            value: UnsafeCell::new(value),
        }
    }

    fn raw(&self) -> &R {
        // SAFETY: only `reset` writes the cell, and its caller promises that nobody else is here.
        unsafe { &*self.raw.get() }
    }

    pub(crate) fn lock(&self) -> Guard<'_, R, T> {
        self.raw().lock();
        Guard { lock: self }
    }

    /// Makes the lock free again.
    ///
    /// # Safety
    /// No other thread uses the lock, and no guard of it will be dropped later.
    pub(crate) unsafe fn reset(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.raw.get().write(R::INIT) };
    }
}

/// Holds a [`Lock`].
pub(crate) struct Guard<'a, R: RawMutex, T> {
    lock: &'a Lock<R, T>,
}

impl<R: RawMutex, T> Deref for Guard<'_, R, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<R: RawMutex, T> DerefMut for Guard<'_, R, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<R: RawMutex, T> Drop for Guard<'_, R, T> {
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock.
        unsafe { self.lock.raw().unlock() };
    }
}
