//! Faults that were read while their reader was busy with another, to be answered later.

use crate::machine::linux::Linux;
use crate::machine::os::{Os, Userfaults};
use crate::machine::ranked_lock::RankedLock;
use crate::machine::ranks;
use coldpress_uffd::{Access, AddressRange, PAGE_SIZE};
use core::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use lock_api::RawMutex;

/// A touch that waits.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) address: usize,
    pub(crate) access: Access,
    pub(crate) thread: u32,
    /// When it was read, where it was put off; 0: just now.
    pub(crate) read_ns: u64,
}

const DEFERRED: usize = 1024;

struct Deferred {
    faults: [Fault; DEFERRED],
    len: usize,
}

/// Faults that were read while their reader was busy with another.
pub struct DeferredFaults<O: Os = Linux> {
    list: lock_api::Mutex<RankedLock<{ ranks::LEAF }, O>, Deferred>,
    count: AtomicUsize,
}

impl<O: Os> Default for DeferredFaults<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> DeferredFaults<O> {
    /// None.
    pub const fn new() -> Self {
        const NONE: Fault = Fault {
            address: 0,
            access: Access::Read,
            thread: 0,
            read_ns: 0,
        };
        Self {
            list: lock_api::Mutex::const_new(
                RawMutex::INIT,
                Deferred {
                    faults: [NONE; DEFERRED],
                    len: 0,
                },
            ),
            count: AtomicUsize::new(0),
        }
    }

    /// Puts a fault off.
    pub(crate) fn push(&self, uffd: &O::Userfaultfd, fault: Fault) {
        let mut list = self.list.lock();
        // It was woken meanwhile, and waits for the answer to the same.
        let is_same =
            |other: &Fault| (other.address, other.thread) == (fault.address, fault.thread);
        if list.faults[..list.len].iter().any(is_same) {
            return;
        }
        if list.len == DEFERRED {
            // The thread tries again and asks anew.
            let _ = uffd.wake(AddressRange::new(fault.address, PAGE_SIZE));
            return;
        }
        let len = list.len;
        list.faults[len] = fault;
        list.len += 1;
        self.count.store(list.len, Release);
    }

    /// Takes one of them.
    pub(crate) fn pop(&self) -> Option<Fault> {
        if self.count.load(Acquire) == 0 {
            return None;
        }
        let mut list = self.list.lock();
        list.len = list.len.checked_sub(1)?;
        self.count.store(list.len, Release);
        Some(list.faults[list.len])
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Nothing is deferred: in the child of a fork.
    ///
    /// # Safety
    /// No other thread exists that uses it.
    pub unsafe fn reset(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.list.raw().reset() };
        self.list.lock().len = 0;
        self.count.store(0, Relaxed);
    }
}
