//! What the program's threads ask of the pager's: the preload library's wrappers come in here.
//!
//! A thread of the program cannot use the pager's userfaultfd (the descriptor stands in another
//! table), so registering is done for it by the reclaim thread, one request at a time.

use crate::exclusions::Reason;
use crate::fork::Operation;
use crate::futex::{FutexLock, add_and_wake, set_and_wake, wait_while};
use crate::windows::parts;
use crate::{Pager, handler, sys};
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use lock_api::RawMutex;

const PENDING: u32 = 1;
const NONE: u32 = 0;

/// How often a range is registered whole before its call is made all the same.
const ATTEMPTS: usize = 16;

/// A range to be registered whole.
pub struct Request {
    /// One asker at a time.
    lock: FutexLock,
    state: AtomicU32,
    start: AtomicUsize,
    end: AtomicUsize,
    granted: AtomicBool,
}

impl Request {
    /// None.
    pub const fn new() -> Self {
        Self {
            lock: FutexLock::INIT,
            state: AtomicU32::new(NONE),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            granted: AtomicBool::new(false),
        }
    }
}

impl Request {
    /// Nobody asks: in the child of a fork.
    ///
    /// # Safety
    /// No other thread exists that uses it.
    pub unsafe fn reset(&self) {
        self.lock.reset();
        self.state.store(NONE, Relaxed);
    }
}

impl Default for Request {
    fn default() -> Self {
        Self::new()
    }
}

impl Pager {
    /// Wakes the reclaim thread.
    pub fn ring(&self) {
        add_and_wake(&self.bell);
    }

    /// Whether the reclaim thread has something better to do.
    pub(crate) fn bell_rung(&self) -> bool {
        self.fork.pause.load(Acquire) == 1 || self.request.state.load(Acquire) == PENDING
    }

    /// Leaves a range alone from now on.
    pub fn exclude(&self, range: AddressRange, reason: Reason) {
        if self.is_running() && !self.host.exclusions.add(range, reason) {
            crate::message::say(format_args!(
                "the table of memory that is left alone is full; {:#x} may be evicted",
                range.start
            ));
        }
    }

    /// The kernel has dropped the pages of a range without an event.
    pub fn dropped_unannounced(&self, operation: Operation) {
        if self.is_running() {
            let _closed = self.host.gate.close();
            handler::deliver(operation);
        }
    }

    /// Calls `act` (a system call that moves the memory of `range`) while `range` is registered
    /// whole or not at all. Called by a thread of the program.
    ///
    /// Registering a part of a mapping splits it. The kernel before 6.17 refuses to move what
    /// spans several mappings; later ones move them one by one, and stop with an error halfway
    /// where a registered one follows.
    pub fn unsplit<T>(&self, range: AddressRange, act: impl FnOnce() -> T) -> T {
        let range = AddressRange {
            start: range.start & !(PAGE_SIZE - 1),
            end: range.end.next_multiple_of(PAGE_SIZE),
        };
        if !self.is_running() {
            return act();
        }
        for _ in 0..ATTEMPTS {
            let registering = self.registering.lock();
            if !self.is_partly_registered(range) {
                return act();
            }
            drop(registering);
            if !self.register_whole(range) {
                // Another thread is moving memory in this moment.
                sys::sleep_ns(100_000);
            }
        }
        act()
    }

    fn register_whole(&self, range: AddressRange) -> bool {
        let request = &self.request;
        request.lock.lock();
        request.start.store(range.start, Relaxed);
        request.end.store(range.end, Relaxed);
        request.state.store(PENDING, Release);
        self.ring();
        wait_while(&request.state, PENDING);
        let granted = request.granted.load(Relaxed);
        // SAFETY: locked above.
        unsafe { request.lock.unlock() };
        granted
    }

    /// Whether some pages of the range are registered and some are not.
    fn is_partly_registered(&self, range: AddressRange) -> bool {
        let (mut some, mut all) = (false, true);
        for part in parts(range) {
            match self.host.windows.find(&self.host.memory, part.base) {
                None => all = false,
                Some(id) => {
                    let window = self.host.windows.get(id);
                    for index in part.first..part.end {
                        let registered = window.is_registered(index);
                        some |= registered;
                        all &= registered;
                    }
                }
            }
        }
        some && !all
    }

    /// Does what is asked for. Called by the reclaim thread.
    pub(crate) fn serve_request(&self) {
        let request = &self.request;
        if request.state.load(Acquire) != PENDING {
            return;
        }
        let range = AddressRange {
            start: request.start.load(Relaxed),
            end: request.end.load(Relaxed),
        };
        let mut granted = true;
        for part in parts(range) {
            let Some(vmo) = crate::discovery::window_for(part.base) else {
                granted = false;
                break;
            };
            let _inside = self.host.gate.enter();
            let window = self.host.windows.get(vmo);
            let range = AddressRange {
                start: window.address(part.first),
                end: part.base + part.end as usize * PAGE_SIZE,
            };
            granted &= self.host.register_in_window(vmo, range).is_ok();
        }
        request.granted.store(granted, Relaxed);
        set_and_wake(&request.state, NONE);
    }
}
