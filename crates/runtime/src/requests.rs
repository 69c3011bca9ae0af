//! What the program's threads ask of the pager's: the preload library's wrappers come in here.
//!
//! A thread of the program cannot use the pager's userfaultfd (the descriptor stands in another
//! table), so registering is done for it by the reclaim thread, one request at a time.

use crate::exclusions::Reason;
use crate::fork::Operation;
use crate::futex::{FutexLock, add_and_wake, set_and_wake, wait_while};
use crate::windows::parts;
use crate::{Pager, handler};
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use lock_api::RawMutex;

const PENDING: u32 = 1;
const NONE: u32 = 0;

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
            handler::change(operation);
        }
    }

    /// Registers a range whole, if a part of it is. Called by a thread of the program. Whether
    /// anything has changed.
    pub fn unify(&self, range: AddressRange) -> bool {
        let range = AddressRange {
            start: range.start & !(PAGE_SIZE - 1),
            end: range.end.next_multiple_of(PAGE_SIZE),
        };
        if !self.is_running() || !self.is_partly_registered(range) {
            return false;
        }
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

    fn is_partly_registered(&self, range: AddressRange) -> bool {
        parts(range).any(|part| {
            let window = self.host.windows.find(&self.host.memory, part.base);
            window.is_some_and(|id| {
                let window = self.host.windows.get(id);
                (part.first..part.end).any(|index| window.is_registered(index))
            })
        })
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
