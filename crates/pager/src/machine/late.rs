//! A value that is set once the pager starts, and set again in the child of a fork.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

/// A value that comes late.
pub struct Late<T> {
    value: UnsafeCell<Option<T>>,
    set: AtomicBool,
}

// SAFETY: written before `set`, by one thread; read only after.
unsafe impl<T: Send + Sync> Sync for Late<T> {}

impl<T> Late<T> {
    /// Not there yet.
    pub const fn new() -> Self {
        Self {
            value: UnsafeCell::new(None),
            set: AtomicBool::new(false),
        }
    }

    /// The value, once it is there.
    pub fn get(&self) -> Option<&T> {
        if !self.set.load(Acquire) {
            return None;
        }
        // SAFETY: set and not written again while anyone may read (see `set`).
        unsafe { (*self.value.get()).as_ref() }
    }

    /// The value is not there any more: in the child of a fork, whose pager has not opened it yet. It is forgotten,
    /// not dropped.
    ///
    /// # Safety
    /// No other thread uses this cell now, and nobody holds a reference from [`get`](Self::get).
    pub unsafe fn unset(&self) {
        self.set.store(false, Release);
    }

    /// Sets the value. What was there is forgotten, not dropped: in the child of a fork its
    /// descriptors are numbers of another table.
    ///
    /// # Safety
    /// No other thread uses this cell now, and nobody holds a reference from [`get`](Self::get).
    pub unsafe fn set(&self, value: T) {
        // SAFETY: as the caller promises.
        let old = unsafe { core::ptr::replace(self.value.get(), Some(value)) };
        core::mem::forget(old);
        self.set.store(true, Release);
    }
}

impl<T> Default for Late<T> {
    fn default() -> Self {
        Self::new()
    }
}
