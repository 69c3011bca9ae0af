//! A mutex over the host's raw lock, with a rank.
//!
//! Thinner than `lock_api::Mutex` in that it can be reset in the child of a fork. And it has a
//! rank: a thread may take a lock only while all that it holds are of lower ranks. Debug builds
//! check that and panic, naming the two; in other builds nothing of it is left. The ranks are
//! those of the table in ARCHITECTURE.md:
//!
//! | rank | lock |
//! |---|---|
//! | 6 | the lock of a VMO (so no thread ever holds two) |
//! | 7 | leaves: tables, queues, storage (so no thread ever holds two of these either) |
//!
//! A stable section is opened, and the host is let change, with none of them held
//! ([`assert_none_held`]).

use crate::{Engine, Host};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU32;
use lock_api::RawMutex;

/// The ranks of the engine's locks.
pub mod rank {
    /// A VMO's lock.
    pub const VMO: u32 = 6;
    /// Locks under which no other is taken.
    pub const LEAF: u32 = 7;
}

/// What a host's lock knows of the thread that takes it.
pub trait HeldRanks {
    /// A word of the calling thread that no other uses, zero at first: one bit for each rank held.
    /// `None`: this thread is not checked. Asked in debug builds only.
    fn held() -> Option<&'static AtomicU32> {
        None
    }
}

/// Notes that the calling thread takes a lock of this rank.
///
/// # Panics
/// In debug builds, if it holds one of this rank or a higher one.
#[inline(always)]
pub fn take<R: HeldRanks>(rank: u32) {
    #[cfg(debug_assertions)]
    if let Some(held) = R::held() {
        use core::sync::atomic::Ordering::Relaxed;
        let ranks = held.load(Relaxed);
        assert!(
            ranks >> rank == 0,
            "lock order: rank {rank} is taken while rank {} is held",
            ranks.ilog2()
        );
        held.store(ranks | 1 << rank, Relaxed);
    }
    #[cfg(not(debug_assertions))]
    let _ = rank;
}

/// Notes that the calling thread has taken a lock of this rank without waiting for it: that can
/// close no circle, whatever else it holds.
///
/// # Panics
/// In debug builds, if it holds another of this rank.
#[inline(always)]
pub fn take_tried<R: HeldRanks>(rank: u32) {
    #[cfg(debug_assertions)]
    if let Some(held) = R::held() {
        use core::sync::atomic::Ordering::Relaxed;
        let ranks = held.fetch_or(1 << rank, Relaxed);
        assert!(ranks & 1 << rank == 0, "two locks of rank {rank}");
    }
    #[cfg(not(debug_assertions))]
    let _ = (rank, R::held);
}

/// Notes that the calling thread has given a lock of this rank back.
#[inline(always)]
pub fn give<R: HeldRanks>(rank: u32) {
    #[cfg(debug_assertions)]
    if let Some(held) = R::held() {
        held.fetch_and(!(1 << rank), core::sync::atomic::Ordering::Relaxed);
    }
    #[cfg(not(debug_assertions))]
    let _ = rank;
}

/// # Panics
/// In debug builds, if the calling thread holds any lock of the engine.
#[inline(always)]
pub fn assert_none_held<R: HeldRanks>() {
    #[cfg(debug_assertions)]
    if let Some(held) = R::held() {
        let ranks = held.load(core::sync::atomic::Ordering::Relaxed) >> rank::VMO;
        assert!(ranks == 0, "lock order: a stable section inside a lock");
    }
}

/// A value behind a lock of rank `RANK`.
pub(crate) struct Lock<R, T, const RANK: u32> {
    raw: UnsafeCell<R>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only by the holder of the raw lock, one thread at a time.
unsafe impl<R: Send + Sync, T: Send, const RANK: u32> Sync for Lock<R, T, RANK> {}

impl<R: RawMutex + HeldRanks, T, const RANK: u32> Lock<R, T, RANK> {
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

    /// Where the lock lies.
    pub(crate) fn address(&self) -> usize {
        self.raw.get() as usize
    }

    pub(crate) fn lock(&self) -> Guard<'_, R, T, RANK> {
        take::<R>(RANK);
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

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Where the locks lie that there is one of, for hosts that trace theirs by address.
    pub fn lock_addresses(&self) -> [(&'static str, usize); 3] {
        [
            ("tables lock", self.tables.lock_address()),
            ("queue lock", self.queues.lock_address()),
            ("storage lock", self.storage.address()),
        ]
    }
}

/// Holds a [`Lock`].
pub(crate) struct Guard<'a, R: RawMutex + HeldRanks, T, const RANK: u32> {
    lock: &'a Lock<R, T, RANK>,
}

impl<R: RawMutex + HeldRanks, T, const RANK: u32> Deref for Guard<'_, R, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<R: RawMutex + HeldRanks, T, const RANK: u32> DerefMut for Guard<'_, R, T, RANK> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<R: RawMutex + HeldRanks, T, const RANK: u32> Drop for Guard<'_, R, T, RANK> {
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock.
        unsafe { self.lock.raw().unlock() };
        give::<R>(RANK);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::boxed::Box;
    use std::panic::catch_unwind;
    use std::thread_local;

    thread_local! {
        static HELD: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    }

    struct Raw(AtomicBool);

    // SAFETY: whoever turns `false` into `true` holds the lock.
    unsafe impl RawMutex for Raw {
        #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to a new lock
        const INIT: Self = Self(AtomicBool::new(false));
        type GuardMarker = lock_api::GuardSend;

        fn lock(&self) {
            assert!(self.try_lock(), "held already");
        }

        fn try_lock(&self) -> bool {
            !self.0.swap(true, Relaxed)
        }

        unsafe fn unlock(&self) {
            self.0.store(false, Relaxed);
        }
    }

    impl HeldRanks for Raw {
        fn held() -> Option<&'static AtomicU32> {
            Some(HELD.with(|held| *held))
        }
    }

    fn panics(act: impl FnOnce() + Send + std::panic::UnwindSafe + 'static) -> bool {
        let result = std::thread::spawn(move || catch_unwind(act).is_err());
        result.join().unwrap()
    }

    #[test]
    fn ranks_may_rise() {
        let (segment, leaf) = (
            Lock::<Raw, u32, { rank::VMO }>::new(1),
            Lock::<Raw, u32, { rank::LEAF }>::new(2),
        );
        for _ in 0..2 {
            let first = segment.lock();
            assert_eq!(*first + *leaf.lock(), 3);
            assert_eq!(*leaf.lock(), 2);
        }
        assert_none_held::<Raw>();
    }

    #[test]
    fn a_wrong_order_panics_in_debug_builds() {
        let wrong = |first: u32, second: u32| {
            panics(move || {
                take::<Raw>(first);
                take::<Raw>(second);
            })
        };
        let checked = cfg!(debug_assertions);
        assert_eq!(wrong(rank::LEAF, rank::VMO), checked);
        assert_eq!(wrong(rank::VMO, rank::VMO), checked, "two VMOs");
        assert_eq!(wrong(rank::LEAF, rank::LEAF), checked, "two leaves");
        let inside = panics(|| {
            take::<Raw>(rank::VMO);
            assert_none_held::<Raw>();
        });
        assert_eq!(inside, checked, "a stable section inside a lock");
    }
}
