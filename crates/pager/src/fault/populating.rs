//! Locked memory that grows as it moves.
//!
//! `mremap` populates what locked memory has grown by before it tells of the move, and from the move until that is told
//! nothing can be put in place (`EAGAIN`; `do_mremap` of every kernel with userfaultfd, seen on 6.18). So its own touch of
//! the first new page cannot be answered: the call would wait for ever. What the memory has grown by is therefore
//! unregistered, and the kernel populates it alone.
//!
//! It must be that and nothing else, for what is away in unregistered memory is lost:
//!
//! * The thread is in such a call now: its fault has just been read, with the gate closed, so it sleeps until it is woken.
//!   For that, threads are woken whose faults have waited for long: they touch their pages again.
//! * The page is the first of what the memory has grown by: it is populated from its start, and since the move nobody could
//!   put anything in place, nor register it again (`register_in_window`). How much is new the call itself says.
//! * Memory that grows where it lies is populated after its first page, too. That is not touched here: it waits for another
//!   thread's change, and will be answered.

use crate::Pager;
use crate::fork::protocol::Operation;
use crate::machine::linux::Linux;
use crate::machine::os::{Os, Remapping, Userfaults};
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A fault that has waited for so long for a change to be told may be one of the call that changes.
const PATIENCE_NS: u64 = 5_000_000;
/// Threads are woken again when they have waited for twice as long, and at the latest after this.
const LONGEST_REST_NS: u64 = 100_000_000;
/// For so long after threads were woken the faults that are read may be theirs.
const AWAITED_NS: u64 = 1_000_000_000;

/// Whether threads were woken, to see what they wait for.
#[derive(Debug)]
pub struct Populating<O: Os = Linux> {
    /// When; 0: none were.
    woken_ns: AtomicU64,
    os: PhantomData<fn(O)>,
}

impl<O: Os> Default for Populating<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Populating<O> {
    /// None were.
    pub const fn new() -> Self {
        Self {
            woken_ns: AtomicU64::new(0),
            os: PhantomData,
        }
    }

    fn was_woken_within(&self, ns: u64) -> bool {
        let woken_ns = self.woken_ns.load(Relaxed);
        woken_ns != 0 && O::now_ns().saturating_sub(woken_ns) < ns
    }
}

impl<O: Os> Pager<O> {
    /// Called by a handler whose page cannot be put in place, where nothing tells of a change: wakes all that wait for what
    /// nobody could answer for long. They touch it again, and it is seen who they are: what a handler is busy with may have
    /// been another thread's touch of the same page.
    pub(super) fn wake_to_see_who_populates(&self) {
        let handlers = &self.handlers[..self.handler_count.load(Relaxed)];
        let served = handlers.iter().map(|handler| {
            let since_ns = handler.since_ns.load(Relaxed);
            (handler.address.load(Relaxed), since_ns)
        });
        let served = served.filter(|&(_, since_ns)| since_ns != 0);
        let now_ns = O::now_ns();
        let waited = |since_ns: u64| now_ns.saturating_sub(since_ns);
        let longest = served.clone().map(|(_, since_ns)| waited(since_ns)).max();
        let rest_ns = longest.unwrap_or(0).clamp(PATIENCE_NS, LONGEST_REST_NS);
        if self.populating.was_woken_within(rest_ns) {
            return;
        }
        let deferred = (0..).map_while(|number| self.deferred.get(number));
        let deferred = deferred.map(|fault| (fault.address, fault.read_ns));
        for (page, since_ns) in served.chain(deferred) {
            if waited(since_ns) > PATIENCE_NS {
                self.populating.woken_ns.store(now_ns, Relaxed);
                let _ = self.host.uffd().wake(AddressRange::new(page, PAGE_SIZE));
            }
        }
    }

    /// A fault was just read, with the gate closed since: whether it is answered, as one of a call that populates.
    pub(super) fn lets_populate(&self, page: usize, thread: u32) -> bool {
        if !self.populating.was_woken_within(AWAITED_NS) {
            return false;
        }
        let Some(new) = self.populated_by(thread, page) else {
            return false;
        };
        // What lay there before has been unmapped, of which an event may or may not have told.
        self.deliver(Operation::Unmap(new));
        // SAFETY: nobody but the kernel has touched it, and nothing of it is remembered.
        let unregistered = unsafe { self.host.uffd().unregister(new) }.is_ok();
        if unregistered {
            self.populating.woken_ns.store(0, Relaxed);
        }
        // Else it is tried again: the fault waits on.
        unregistered
    }

    /// What a thread has grown, if it populates that and now waits for this page, the first of it, before it tells of a move.
    fn populated_by(&self, thread: u32, page: usize) -> Option<AddressRange> {
        let Remapping { old, new_len } = O::remapping_of(thread)?;
        let grown_by = new_len.checked_sub(old.len()).filter(|&bytes| bytes > 0)?;
        let in_place = AddressRange::new(old.end, grown_by);
        // It may have moved to there, if other memory lay between: then the old place is no more.
        if in_place.contains(page) && self.host.uffd().is_registered_now(old) != Ok(false) {
            return None;
        }
        Some(AddressRange::new(page, grown_by))
    }
}
