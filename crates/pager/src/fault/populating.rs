//! Locked memory that grows as it moves.
//!
//! `mremap` populates what locked memory has grown by before it tells of the move, and from the move until that is told
//! nothing can be put in place (`EAGAIN`; `do_mremap` of every kernel with userfaultfd, seen on 6.18). So its own touch of
//! the first new page cannot be answered: the call would wait for ever. What the memory has grown by is therefore
//! unregistered, and the kernel populates it alone.
//!
//! It must be that and nothing else, for what is away in unregistered memory is lost:
//!
//! * The thread is in such a call now: its fault has just been read, with the gate closed, so it sleeps until it is woken
//!   (or until a signal comes, if it is not in a call). For that, threads are woken whose faults have waited for long: they
//!   touch their pages again.
//! * The page is the first of what the memory has grown by: it is populated from its start, and since the move nobody could
//!   put anything in place, nor register it again (`register_in_window`). How much is new the call itself says, and where,
//!   if that was asked for. It is asked whether all of that is registered.
//! * Memory that grows where it lies is populated after its first page, too. That is not touched here: it waits for another
//!   thread's change, and will be answered.

use crate::Pager;
use crate::fork::protocol::Operation;
use crate::machine::os::{Os, PopulatedPages, Remapping, Userfaults};
use crate::space::windows::ADDRESS_LIMIT;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A fault that has waited for so long for a change to be told may be one of the call that changes.
const PATIENCE_NS: u64 = 5_000_000;
/// Threads are woken again when they have waited for twice as long, and at the latest after this.
const LONGEST_REST_NS: u64 = 100_000_000;
/// For so long after threads were woken the faults that are read may be theirs, unless a change is told of. Nothing can be
/// put in place meanwhile, so that nobody waits for longer since it is looked who they are.
const AWAITED_NS: u64 = 2 * LONGEST_REST_NS;
/// All that a thread of the program may wait for: the kernel refuses a range that begins below `vm.mmap_min_addr`.
const EVERYWHERE: AddressRange = AddressRange {
    start: 1 << 20,
    end: ADDRESS_LIMIT - PAGE_SIZE,
};

/// Whether threads were woken, to see what they wait for.
#[derive(Debug, Default)]
pub struct Populating {
    /// When; 0: none were since a change was told of.
    woken_ns: AtomicU64,
    /// Since when a handler has seen neither a change nor a way to put its page in place; 0: none has.
    stuck_since_ns: AtomicU64,
}

impl Populating {
    /// None were.
    pub const fn new() -> Self {
        Self {
            woken_ns: AtomicU64::new(0),
            stuck_since_ns: AtomicU64::new(0),
        }
    }

    /// A change was told of, or is going to be.
    pub(super) fn goes_on(&self) {
        self.stuck_since_ns.store(0, Relaxed);
        self.woken_ns.store(0, Relaxed);
    }
}

impl<O: Os> Pager<O> {
    fn has_woken_within(&self, ns: u64) -> bool {
        let woken_ns = self.populating.woken_ns.load(Relaxed);
        woken_ns != 0 && O::now_ns().saturating_sub(woken_ns) < ns
    }

    /// Called by a handler whose page cannot be put in place, where nothing tells of a change. If that is so for long, it
    /// wakes all that wait for any page: they touch it again, and it is seen who they are. What a handler is busy with may
    /// have been another thread's touch of the same page, or none, where it reads ahead.
    pub(super) fn wake_to_see_who_populates(&self) {
        let populating = &self.populating;
        let now_ns = O::now_ns();
        let waited = |since_ns: u64| match since_ns {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        let stuck_since = &populating.stuck_since_ns;
        let _ = stuck_since.compare_exchange(0, now_ns, Relaxed, Relaxed);
        let handlers = &self.handlers[..self.handler_count.load(Relaxed)];
        let faults = handlers
            .iter()
            .map(|handler| handler.since_ns.load(Relaxed));
        let longest = faults.map(waited).max().unwrap_or(0);
        let longest = longest.max(waited(stuck_since.load(Relaxed)));
        let rest_ns = longest.clamp(PATIENCE_NS, LONGEST_REST_NS);
        if longest >= PATIENCE_NS && !self.has_woken_within(rest_ns) {
            populating.woken_ns.store(now_ns, Relaxed);
            let _ = self.host.uffd().wake(EVERYWHERE);
        }
    }

    /// A fault was just read, with the gate closed since: whether it is answered, as one of a call that populates.
    pub(super) fn lets_populate(&self, page: usize, thread: u32) -> bool {
        if !self.has_woken_within(AWAITED_NS) {
            return false;
        }
        let Some(new) = self.populated_by(thread, page) else {
            return false;
        };
        // What lay there before has been unmapped, of which an event may or may not have told.
        self.deliver(Operation::Unmap(new));
        // SAFETY: nobody but the kernel has touched it. What is remembered there is of other memory, and forgotten, or noted
        // to be during a fork.
        let unregistered = unsafe { self.host.uffd().unregister(new) }.is_ok();
        if unregistered {
            self.populating.goes_on();
        }
        // Else (`max_map_count` is reached, or there is no memory) it is tried again: the fault waits on.
        unregistered
    }

    /// What a thread has grown, if it populates that and now waits for this page, the first of it, before it tells of a move.
    fn populated_by(&self, thread: u32, page: usize) -> Option<AddressRange> {
        let Remapping { old, new_len, to } = O::remapping_of(thread)?;
        // Without what the processor does not look at (LAM).
        let old = AddressRange::new(old.start % ADDRESS_LIMIT, old.len());
        let to = to.map(|to| to % ADDRESS_LIMIT);
        let grown_by = new_len.checked_sub(old.len()).filter(|&bytes| bytes > 0)?;
        let new = AddressRange::new(page, grown_by);
        if to.is_some_and(|to| to + old.len() != page) {
            return None;
        }
        // It may have moved to there, if other memory lay between: then nothing is where it was.
        if AddressRange::new(old.end, grown_by).contains(page) {
            let first = self.host.pagemap.get()?.first_mapped(old);
            first.ok().filter(Option::is_none)?;
        }
        // All of it is of one mapping, and registered.
        (self.host.uffd().is_registered_now(new) != Ok(false)).then_some(new)
    }
}
