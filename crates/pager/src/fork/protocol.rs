//! Fork: the child rebuilds its own pager before its own code runs.
//!
//! The kernel gives the child a copy of everything the pager knows (tables, storage), but not
//! the registration of its memory: a compressed page would read as zeros. Three hooks of libc's
//! `fork` mend that, without privilege:
//!
//! * [`prepare`](Pager::fork_prepare), in the forking thread, makes the pager *still*: reclaim is paused between
//!   batches, and handlers go on serving faults without changing anything: what they restore and
//!   what events tell is only noted in the [`Journal`]. So the copy is whole at whatever moment
//!   the kernel takes it, and the forking thread may still touch compressed memory on its way.
//! * [`parent`](Pager::fork_parent) carries the journal out and lets everything go on.
//! * [`child`](Pager::fork_child) does the same with its copy, opens a userfaultfd of its own, registers what was
//!   registered, and starts new threads: at first the two without which nothing that is away comes back
//!   (`start`). Where nothing is away it only waits until it is worth a pager ([`dormant`](crate::life::dormant)). Where it cannot
//!   have one it puts every page that is away back into place instead, and goes on without (`put_back`).
//!
//! The preload library puts the same hooks around libc's `clone` and `syscall`. A child made behind
//! libc's back (by an instruction of the program's own) runs none. Where the kernel tells of every fork the pager gives
//! such a child what it needs ([`unannounced`](crate::fork::unannounced)). Where it does not, registered memory is not
//! inherited at all (`MADV_DONTFORK`), except between the hooks: such a child gets SIGSEGV where it would have read zeros.
//!
//! A page is away in the child if its entry says so and it is not in place. Between the hooks huge pages
//! are therefore kept out of the process: one that the kernel makes of some pages and the holes
//! between them would put zeros in place.
//!
//! libc writes to some of its own memory in the child before the child's hook runs: the locks of
//! its open files (touched in `prepare`, while reclaim is paused, so that they are in place) and
//! the heads of its arenas (never evicted, see `discovery`).

use crate::fork::put_back::Code;
use crate::machine::futex::{set_and_wake, wait_while};
use crate::machine::linux::Linux;
use crate::machine::os::{Os, Userfaults};
use crate::machine::ranked_lock::RankedLock;
use crate::machine::ranks;
use crate::memory::own::Memory;
use crate::space::paging::{Space, outcome};
use crate::space::windows::{ADDRESS_LIMIT, Window, parts};
use crate::{Codec, Pager};
use coldpress_arena::ChunkSource;
use coldpress_engine::{Content, Doubt, Installed, SEGMENT_PAGES, SegmentId, Worker};
use coldpress_linux::sys::thread_block;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use lock_api::RawMutex;

/// Something that happened to the address space, or to a page, in the order it happened.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// The pages of a range are going to be dropped; they are registered.
    Remove(AddressRange),
    /// The pages of a range were dropped, and nobody tells of it.
    Dropped(AddressRange),
    /// A range is no longer mapped.
    Unmap(AddressRange),
    /// A range has moved.
    Remap {
        /// Old place.
        from: usize,
        /// New place.
        to: usize,
        /// Bytes.
        len: usize,
    },
    /// A page was put in place.
    Restored(usize),
    /// A page was poisoned: what is remembered of it must not come back, whatever becomes of the poison.
    Poisoned(usize),
}

/// An operation, and which fork it was noted in. The kernel copies the journal page by page while others
/// write to it: in the child its length may count entries that are still those of a fork before.
#[derive(Clone, Copy, Debug)]
struct Noted {
    operation: Operation,
    fork: usize,
}

const ENTRY_BYTES: usize = size_of::<Noted>();
const CAPACITY: usize = coldpress_arena::CHUNK_BYTES / ENTRY_BYTES;
/// Restored pages are no longer noted when only this many places are left; what is in place is
/// looked up afterwards instead.
const KEPT_FOR_CHANGES: usize = 8192;
/// When only this many places are left no handler reads any more before the fork is over, but in the middle of a fault that
/// cannot go on otherwise.
const KEPT_FOR_FAULTS: usize = 4096;

/// What happened while the pager was still.
pub struct Journal {
    entries: AtomicPtr<Noted>,
    len: AtomicUsize,
    changes: AtomicUsize,
    /// Number of the fork.
    fork: AtomicUsize,
    /// A restored page was not noted for want of room.
    overflow: AtomicBool,
}

/// The state of forking.
pub struct Fork<O: Os = Linux> {
    /// One fork at a time: held from `fork_prepare` to `fork_parent` or `fork_child`.
    pub(crate) lock: RankedLock<{ ranks::FORK }, O>,
    /// Signal mask of the forking thread, whose signals are blocked between the hooks: a handler
    /// could touch memory that nobody answers for. Guarded by `lock`.
    pub(crate) signals: AtomicU64,
    /// 1: handlers finish what they do and read nothing.
    pub hold: AtomicU32,
    /// Handlers change nothing.
    pub still: AtomicBool,
    /// 1: reclaim stops after its batch.
    pub pause: AtomicU32,
    /// 1: reclaim has stopped.
    pub paused: AtomicU32,
    journal: Journal,
    /// Whether this is the child of a fork that has inherited what is stored.
    pub(crate) inherited: AtomicBool,
    /// What is written back is to be brought back before reclaim rests: the child could not read it.
    pub(crate) reads_back: AtomicBool,
    /// Whether huge pages are kept out of the process for the fork. Guarded by `lock`.
    no_huge_pages: AtomicBool,
    /// The control block of the thread that forks while the pager waits with starting, so that the fork only holds back what
    /// is noted of memory; 0: none does. Guarded by `lock`.
    holds_notes: AtomicUsize,
    /// What the parent has seen of code that it made (see `put_back`).
    pub(crate) code: Code,
    pub(crate) appending: lock_api::Mutex<RankedLock<{ ranks::LEAF }, O>, ()>,
}

impl<O: Os> Fork<O> {
    /// No fork under way.
    pub const fn new() -> Self {
        Self {
            lock: RawMutex::INIT,
            signals: AtomicU64::new(0),
            hold: AtomicU32::new(0),
            still: AtomicBool::new(false),
            pause: AtomicU32::new(0),
            paused: AtomicU32::new(0),
            journal: Journal {
                entries: AtomicPtr::new(core::ptr::null_mut()),
                len: AtomicUsize::new(0),
                changes: AtomicUsize::new(0),
                fork: AtomicUsize::new(0),
                overflow: AtomicBool::new(false),
            },
            inherited: AtomicBool::new(false),
            reads_back: AtomicBool::new(false),
            no_huge_pages: AtomicBool::new(false),
            holds_notes: AtomicUsize::new(0),
            code: Code::new(),
            appending: lock_api::Mutex::const_new(RawMutex::INIT, ()),
        }
    }

    /// Gets the journal's memory, at the start.
    pub fn reserve(&self, memory: &Memory<O>) -> Option<()> {
        let chunk = memory.chunk()?;
        self.journal.entries.store(chunk.as_ptr().cast(), Relaxed);
        Some(())
    }

    /// No fork begins until [`let_in`](Self::let_in).
    pub(crate) fn lock_out(&self) {
        self.lock.lock();
    }

    /// Forks may begin again. By the thread that has locked them out.
    pub(crate) fn let_in(&self) {
        // SAFETY: locked in `lock_out` by this thread.
        unsafe { self.lock.unlock() };
    }

    pub(crate) fn journal(&self) -> impl DoubleEndedIterator<Item = Operation> + '_ {
        let fork = self.journal.fork.load(Relaxed);
        let len = self.journal.len.load(Acquire);
        let noted: &[Noted] = match self.journal.entries.load(Relaxed) {
            entries if entries.is_null() => &[],
            // SAFETY: the first `len` entries are written before `len` says so.
            entries => unsafe { core::slice::from_raw_parts(entries, len) },
        };
        let of_this = noted.iter().filter(move |noted| noted.fork == fork);
        of_this.map(|noted| noted.operation)
    }

    /// The number of the fork under way, or of the last.
    pub(crate) fn number(&self) -> usize {
        self.journal.fork.load(Relaxed)
    }

    fn begin_journal(&self) {
        debug_assert!(
            !self.still.load(Relaxed),
            "a journal begins before the pager is still"
        );
        self.journal.fork.fetch_add(1, Relaxed);
        self.empty_journal();
    }

    fn empty_journal(&self) {
        self.journal.len.store(0, Relaxed);
        self.journal.changes.store(0, Relaxed);
    }
}

impl<O: Os> Default for Fork<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Fork<O> {
    /// Notes what happened while the pager is still.
    pub(crate) fn note(&self, operation: Operation) {
        let _appending = self.appending.lock();
        debug_assert!(
            self.still.load(Relaxed),
            "noted while the pager is not still"
        );
        let len = self.journal.len.load(Relaxed);
        debug_assert!(len <= CAPACITY, "the journal has {len} of {CAPACITY}");
        let is_change = !matches!(operation, Operation::Restored(_));
        let limit = CAPACITY - if is_change { 0 } else { KEPT_FOR_CHANGES };
        if len >= limit {
            if is_change {
                crate::machine::message::say(format_args!(
                    "more than {len} changes of the address space during one fork; the program ends here rather than read \
                     wrong content"
                ));
                O::abort();
            }
            self.journal.overflow.store(true, Relaxed);
            return;
        }
        if len >= CAPACITY - KEPT_FOR_FAULTS {
            // Whoever changes the address space waits for its event to be read.
            self.hold.store(1, Release);
        }
        let noted = Noted {
            operation,
            fork: self.journal.fork.load(Relaxed),
        };
        // SAFETY: the chunk has CAPACITY entries, and the lock serialises.
        unsafe { self.journal.entries.load(Relaxed).add(len).write(noted) };
        self.journal.len.store(len + 1, Release);
        if is_change {
            self.journal.changes.fetch_add(1, Release);
        }
    }

    /// Where the content of `address` stands in the page lists, in view of the noted changes.
    /// `None`: it was dropped.
    fn resolve(&self, mut address: usize) -> Option<usize> {
        if self.journal.changes.load(Acquire) == 0 {
            return Some(address);
        }
        for operation in self.journal().rev() {
            let within = |range: AddressRange| range.contains(address);
            match operation {
                Operation::Remove(range) | Operation::Dropped(range) | Operation::Unmap(range)
                    if within(range) =>
                {
                    return None;
                }
                Operation::Poisoned(page) if page == address => return None,
                Operation::Remap { from, to, len } => {
                    if within(AddressRange::new(to, len)) {
                        address = address - to + from;
                    } else if within(AddressRange::new(from, len)) {
                        return None;
                    }
                }
                _ => {}
            }
        }
        Some(address)
    }
}

impl<O: Os> Pager<O> {
    /// What is remembered of the page of an address that is not in place, while the pager is still.
    pub fn peek<'w>(&self, worker: &'w mut Worker<Codec>, address: usize) -> Content<'w> {
        let place = self.fork.resolve(address);
        match place.and_then(|address| self.host.place_of(address)) {
            Some((segment, index)) => self.engine.peek(self, worker, segment, index),
            None => Content::Nothing,
        }
    }

    /// Answers a fault while the pager is still: only reads what is remembered.
    pub(crate) fn serve_still(&self, worker: &mut Worker<Codec>, address: usize) {
        let host = &self.host;
        let Some(uffd) = host.uffd.get() else { return };
        let at = AddressRange::new(address, PAGE_SIZE);
        loop {
            let inside = host.gate.enter();
            let content = match self.was_restored_at(address) {
                // Dropped since, by an event from before the fork, or by none: what the entry remembers is older.
                true => Content::Nothing,
                false => self.peek(worker, address),
            };
            let mut doubt = None;
            let mut installed = match content {
                // Where it really is in place the answer is EEXIST, and a wake.
                Content::Present | Content::Nothing => outcome(uffd.zero(at)),
                // SAFETY: the worker's spare page is ours and readable.
                Content::Bytes(page) => unsafe {
                    outcome(uffd.copy(address, page.as_ptr(), PAGE_SIZE))
                },
                Content::Doubtful => {
                    doubt = Some(Doubt::Damaged);
                    host.poison_page(at)
                }
            };
            if installed == Installed::Refused {
                doubt = Some(Doubt::Refused);
                installed = host.poison_page(at);
            }
            match (installed, doubt) {
                (Installed::Changing, _) => {
                    drop(inside);
                    self.read_changes();
                    continue;
                }
                (Installed::Done, Some(doubt)) => {
                    self.fork.note(Operation::Poisoned(address));
                    host.tell_of_doubt(at, doubt);
                }
                (Installed::Done, None) => self.note_restored(address),
                _ => {
                    let _ = uffd.wake(at);
                }
            }
            return;
        }
    }

    /// Whether the page was put in place since the pager is still. Inside the gate.
    fn was_restored_at(&self, address: usize) -> bool {
        let place = self.host.place_of(address);
        place.is_some_and(|(segment, index)| self.was_restored(segment, index))
    }

    /// Whether a page was put in place while the pager was still: in this fork, or the last. One that was restored at last is
    /// not known as such yet, but resident.
    pub(crate) fn was_restored(&self, segment: u32, index: u32) -> bool {
        let window = self.host.windows.get(segment);
        window.is_restored(index, self.fork.number())
    }

    /// A page was put in place while the pager is still. Inside the gate.
    fn note_restored(&self, address: usize) {
        if let Some((segment, index)) = self.host.place_of(address) {
            let _appending = self.fork.appending.lock();
            let window = self.host.windows.get(segment);
            window.set_restored(index, self.fork.number());
        }
        self.fork.note(Operation::Restored(address));
    }

    /// Waits until no handler is in the middle of anything, then calls `then` with the gate closed.
    fn with_idle_handlers(&self, then: impl FnOnce()) {
        self.fork.hold.store(1, Release);
        loop {
            let closed = self.host.gate.close();
            if self.handlers.iter().all(|h| !h.busy.load(Acquire)) {
                then();
                drop(closed);
                set_and_wake::<O>(&self.fork.hold, 0);
                return;
            }
            drop(closed);
            O::sleep_ns(20_000);
        }
    }
}

impl<O: Os> Space<O> {
    /// Calls `with` for every registered run of pages.
    pub(crate) fn for_each_registered(&self, mut with: impl FnMut(SegmentId, AddressRange)) {
        for (id, window) in self.windows.iter() {
            for_each_registered_of(window, 0, SEGMENT_PAGES, |range| with(id, range));
        }
    }

    /// Calls `with` for every registered run of pages among those of `range`.
    pub(crate) fn for_each_registered_in(
        &self,
        range: AddressRange,
        mut with: impl FnMut(SegmentId, AddressRange),
    ) {
        for part in parts(range) {
            if let Some(id) = self.windows.find(&self.memory, part.base) {
                let with = |range| with(id, range);
                for_each_registered_of(self.windows.get(id), part.first, part.end, with);
            }
        }
    }
}

fn for_each_registered_of(
    window: &Window,
    first: u32,
    end: u32,
    mut with: impl FnMut(AddressRange),
) {
    let mut index = first;
    loop {
        let first = window.next_registered(index, end);
        if first == end {
            return;
        }
        index = window.next_unregistered(first, end);
        with(AddressRange {
            start: window.address(first),
            end: window.address(index),
        });
    }
}

impl<O: Os> Pager<O> {
    /// Before a fork: all private anonymous memory is inherited, but for what the program itself has
    /// excepted. (Not only what is known as registered: the mark passes to memory by which a marked
    /// mapping grows.) By the reclaim thread, which has the list of mappings open: the forking thread may have
    /// neither a free descriptor nor a `/proc`, and that of a process whose first thread has ended is empty.
    pub(crate) fn inherit(&self) {
        let code = &self.fork.code;
        code.forget();
        let mut seen = false;
        // Nothing is kept from children where the kernel tells of them.
        let is_marked = !self.host.hears_of_forks.load(Relaxed) || self.leaving.has_begun();
        let read = self.discovery.for_each_mapping(|m| {
            seen = true;
            let is_private = m.permissions[3] == b'p';
            let special = m.name.starts_with(b"[v") || m.name.starts_with(b"[stack");
            if !is_private || m.is_file() || special || m.range.end > ADDRESS_LIMIT {
                return;
            }
            if m.permissions[1..3] == *b"-x" {
                code.note(m.range);
            }
            if is_marked {
                self.host.inherit_range(m.range);
            }
        });
        if is_marked && (read.is_err() || !seen) {
            self.host
                .for_each_registered(|_, range| self.host.inherit_range(range));
        }
    }
}

impl<O: Os> Space<O> {
    /// After a fork: registered memory is again kept from children made behind libc's back. All events that were read
    /// are acted on, and the handlers read no other.
    fn disinherit(&self) {
        if self.hears_of_forks.load(Relaxed) {
            return;
        }
        self.for_each_registered(|_, range| self.keep_from_raw_clones(range));
        // Where the program has put other memory, and its event is unread, that is marked as well: it is asked for later.
        if self.uffd().is_registered(self.memory.staging()).is_err() {
            self.for_each_registered(|segment, range| self.leave_range_unproven(segment, range));
        }
    }
}

impl<O: Os> Pager<O> {
    /// Before the fork, in the forking thread. Calls `touch` once reclaim rests: what that touches is in place in the child
    /// before its own hook runs.
    pub fn fork_prepare(&self, touch: impl FnOnce()) {
        if !self.is_running() {
            if !self.presence.is_here() {
                // A child that no hook has seen: nor do its own have a pager.
                self.stop();
            } else if self.dormant.is_waiting() {
                self.hold_notes();
            }
            return;
        }
        let began_ns = O::now_ns();
        let signals = O::block_signals();
        self.fork.lock.lock();
        if !self.is_running() {
            // It has left meanwhile.
            self.fork.let_in();
            O::set_signals(signals);
            return;
        }
        if self.tier.is_used() && !self.tier.can_be_inherited() {
            self.tier.stop_writing();
            self.fork.reads_back.store(true, Relaxed);
        }
        self.fork.signals.store(signals, Relaxed);
        // Nothing moves from here on: what is moved takes its mark along, to where `inherit` may have been already.
        // SAFETY: unlocked in `fork_parent` by this thread, or made anew in the child.
        unsafe { self.registering.raw() }.lock();
        self.fork.pause.store(1, Release);
        self.ring();
        wait_while::<O>(&self.fork.paused, 0);
        if !self.is_running() {
            // It has left of its own accord (a young child's, that could not grow up).
            self.fork.pause.store(0, Release);
            // SAFETY: locked above.
            unsafe { self.registering.raw().unlock() };
            self.fork.let_in();
            O::set_signals(signals);
            return;
        }
        // Reclaim rests, so what is touched now is in place when the kernel copies.
        touch();
        self.with_idle_handlers(|| {
            self.tier.keep_for_child();
            self.fork.begin_journal();
            self.fork.still.store(true, Release);
        });
        self.fork
            .no_huge_pages
            .store(O::keep_huge_pages_out(true), Relaxed);
        self.add_fork_wait(began_ns);
    }
}

impl<O: Os> Fork<O> {
    /// Whether this thread held notes back up to now.
    pub(crate) fn no_longer_holds_notes(&self) -> bool {
        let holds = self.holds_notes.load(Relaxed) == thread_block();
        if holds {
            self.holds_notes.store(0, Relaxed);
        }
        holds
    }

    /// In the child: whether the thread that it is the copy of did. (It may have been given another control block.)
    pub(crate) fn no_longer_holds_notes_in_child(&self) -> bool {
        self.holds_notes.swap(0, Relaxed) != 0
    }

    /// The fork is over: the process has huge pages again, if it had any.
    pub(crate) fn let_huge_pages_in(&self) {
        if self.no_huge_pages.swap(false, Relaxed) {
            O::keep_huge_pages_out(false);
        }
    }
}

impl<O: Os> Pager<O> {
    /// Before a fork of a process whose pager waits: nothing is away, but the child must not have memory that has moved
    /// and a note of where it was.
    fn hold_notes(&self) {
        let signals = O::block_signals();
        self.fork.lock.lock();
        self.fork.signals.store(signals, Relaxed);
        // SAFETY: unlocked in `fork_parent` by this thread, or made anew in the child.
        unsafe { self.registering.raw() }.lock();
        self.fork.holds_notes.store(thread_block(), Relaxed);
    }

    /// After such a fork, in the parent and in the child, in which `registering` has been made anew.
    pub(crate) fn end_hold_of_notes(&self) {
        let signals = self.fork.signals.load(Relaxed);
        // SAFETY: locked in `hold_notes` by this thread, or the one that this is the copy of.
        unsafe { self.fork.lock.unlock() };
        O::set_signals(signals);
    }

    /// After the fork, in the parent.
    pub fn fork_parent(&self) {
        if self.fork.no_longer_holds_notes() {
            // SAFETY: locked in `hold_notes` by this thread.
            unsafe { self.registering.raw().unlock() };
            self.end_hold_of_notes();
            return;
        }
        if !self.is_running() {
            return;
        }
        debug_assert!(
            self.fork.still.load(Relaxed) && self.fork.pause.load(Relaxed) == 1,
            "a fork ends that was not prepared"
        );
        let began_ns = O::now_ns();
        self.with_idle_handlers(|| {
            self.carry_out();
            self.host.disinherit();
            self.fork.still.store(false, Release);
        });
        // SAFETY: locked in `fork_prepare` by this thread.
        unsafe { self.registering.raw().unlock() };
        self.fork.let_huge_pages_in();
        self.host.statistics().forks.fetch_add(1, Relaxed);
        self.fork.pause.store(0, Release);
        set_and_wake::<O>(&self.fork.paused, 0);
        self.add_fork_wait(began_ns);
        let signals = self.fork.signals.load(Relaxed);
        // SAFETY: locked in `fork_prepare` by this thread.
        unsafe { self.fork.lock.unlock() };
        O::set_signals(signals);
    }

    /// The thread that forks was held up from then to now.
    fn add_fork_wait(&self, began_ns: u64) {
        let waited_ns = O::now_ns().saturating_sub(began_ns);
        let s = self.host.statistics();
        s.fork_wait_ns.fetch_add(waited_ns, Relaxed);
    }

    /// Carries the journal out. The gate is closed, or nobody else is there.
    pub(crate) fn carry_out(&self) {
        let host = &self.host;
        for operation in self.fork.journal() {
            match operation {
                Operation::Restored(address) => {
                    if let Some((segment, index)) = host.place_of(address) {
                        self.engine.acknowledge_present(self, segment, index);
                    }
                }
                change => self.change(change),
            }
        }
        self.fork.empty_journal();
        if self.fork.journal.overflow.swap(false, Relaxed) {
            host.for_each_registered(|segment, range| self.acknowledge(segment, range));
        }
    }

    fn acknowledge(&self, segment: u32, range: AddressRange) {
        let host = &self.host;
        let base = host.windows.get(segment).base();
        host.for_each_populated(
            range,
            || (),
            |address| {
                let index = (address - base) / PAGE_SIZE;
                self.engine.acknowledge_present(self, segment, index as u32);
            },
        );
    }
}
