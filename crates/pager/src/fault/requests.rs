//! What the program's threads ask of the pager's: the preload library's wrappers come in here.
//!
//! A thread of the program cannot use the pager's userfaultfd (the descriptor stands in another
//! table), so registering is done for it by the reclaim thread, one request at a time.

use crate::fork::protocol::Operation;
use crate::machine::futex::{Inside, add_and_wake, set_and_wake, wait_while};
use crate::machine::linux::Linux;
use crate::machine::os::{self, Os, SignalsBlocked, Userfaults};
use crate::machine::ranked_lock::RankedLock;
use crate::machine::ranks;
use crate::space::exclusions::{MOVE_ALONG, OldPlace, Reason, control_block_range};
use crate::space::windows::parts;
use crate::{Codec, Pager};
use coldpress_engine::{Entry, LEAF_PAGES, Whereabouts, Worker};
use coldpress_uffd::{AddressRange, Errno, PAGE_SIZE};
use core::sync::atomic::{
    AtomicI32, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use lock_api::RawMutex;

const NONE: u32 = 0;
/// A range is to be registered whole.
const REGISTER: u32 = 1;
/// A range, all of whose pages are in place, is to be given up.
pub(crate) const SURRENDER: u32 = 2;
/// The pager is to leave the process.
const LEAVE: u32 = 3;
/// The handlers are to be started.
const HANDLERS: u32 = 4;

/// How often a thread of the program asks for what is refused, before it goes on without.
const ATTEMPTS: u32 = 16;
/// For how long it asks while another thread moves memory, or has changed mappings and not told of it: that one may have
/// lost its processor.
const IN_THE_WAY_NS: u64 = 1_000_000_000;

/// How often one looks whether what was away when it was excluded is back: for a third of a second in all.
const PATIENCE: u32 = 40;

/// How long one rests after the first of these looks; twice as long after each, up to the longest.
const FIRST_PAUSE_NS: u64 = 20_000;
const LONGEST_PAUSE_NS: u64 = 10_000_000;

/// What is asked, of which range, and the answer.
pub struct Request<O: Os = Linux> {
    /// One asker at a time.
    lock: RankedLock<{ ranks::FORK }, O>,
    state: AtomicU32,
    start: AtomicUsize,
    end: AtomicUsize,
    /// 0, or the error.
    answer: AtomicI32,
}

impl<O: Os> Request<O> {
    /// None.
    pub const fn new() -> Self {
        Self {
            lock: RawMutex::INIT,
            state: AtomicU32::new(NONE),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            answer: AtomicI32::new(0),
        }
    }
}

impl<O: Os> Request<O> {
    /// Nobody asks: in the child of a fork.
    ///
    /// # Safety
    /// No other thread exists that uses it.
    pub unsafe fn reset(&self) {
        self.lock.reset();
        self.state.store(NONE, Relaxed);
    }

    /// Lets the asker go on, with an answer.
    fn answer(&self, answer: Result<(), Errno>) {
        let code = answer.map_or_else(Errno::raw_os_error, |()| 0);
        self.answer.store(code, Relaxed);
        set_and_wake::<O>(&self.state, NONE);
    }
}

impl<O: Os> Default for Request<O> {
    fn default() -> Self {
        Self::new()
    }
}

/// What is known of the registration of a range.
#[derive(Clone, Copy)]
enum Registration {
    /// All of it is registered, or nothing.
    Uniform,
    /// Some of it is.
    Parts,
    /// Some of it may be. What a mapping has grown by is registered without being known as such, and may have lost
    /// neighbours that were; and of what is unproven nothing is known.
    Unknown,
}

impl<O: Os> Pager<O> {
    /// Wakes the reclaim thread.
    pub fn ring(&self) {
        add_and_wake::<O>(&self.bell);
    }

    /// Whether the reclaim thread has something better to do.
    pub(crate) fn bell_rung(&self) -> bool {
        self.fork.pause.load(Acquire) == 1
            || self.request.state.load(Acquire) != NONE
            || self.control.is_pending()
    }

    /// The gate, from inside. Who unmaps memory goes on when the event is *read*: its addresses may be
    /// mapped and asked for again before it is acted upon, which would end what was asked. Events are
    /// read and acted upon with the gate closed, so inside it those of earlier calls are past.
    fn after_events(&self) -> Inside<'_, O> {
        self.host.gate.enter_in_turn()
    }

    /// Leaves a range alone from now on. What has been taken of it stays away until it is touched, and a run that is
    /// being taken in this moment may still take some.
    pub fn exclude(&self, range: AddressRange, reason: Reason) {
        if !self.is_expected() {
            return;
        }
        let _signals = SignalsBlocked::<O>::new();
        let _inside = self.after_events();
        self.host.exclusions.add(range, reason);
    }

    /// The same, and when this returns all of it is in place. Called by a thread of the program.
    pub fn keep_in_place(&self, range: AddressRange, reason: Reason) {
        self.exclude(range, reason);
        self.bring_back(range);
    }

    /// Keeps the control block of a thread in place, and what surrounds it. Called by a thread of the program.
    pub fn keep_control_block(&self, block: usize) {
        if !self.is_expected() {
            return;
        }
        let range = control_block_range(block);
        {
            let _signals = SignalsBlocked::<O>::new();
            let _inside = self.after_events();
            self.host.exclusions.add_control_block(block);
        }
        self.bring_back(range);
    }

    /// Calls `act`, a system call that drops pages of `range` without an event, while nothing is put in place: a page
    /// that came back behind it would be taken for what is there now. `act` says by the function that it is handed which
    /// pages it has dropped.
    ///
    /// A child that no hook sees may have been made a moment before, and its event be unread: what is forgotten here it
    /// would miss. So all of the range is in place by then, as the child has it, where the kernel tells of such children.
    pub fn drop_unannounced<T>(
        &self,
        range: AddressRange,
        act: impl FnOnce(&dyn Fn(AddressRange)) -> T,
    ) -> T {
        self.change_unannounced(range, |tell| {
            act(&|dropped| tell(Operation::Dropped(dropped)))
        })
    }

    /// Calls `act`, which puts memory that is none of ours in the place of `range` (`SHM_REMAP`), without an
    /// event: it is as if that were unmapped. `act` answers with the place, or an error.
    pub fn replace_unannounced(&self, range: AddressRange, act: impl FnOnce() -> isize) -> isize {
        self.change_unannounced(range, |tell| {
            let result = act();
            if result >= 0 {
                let replaced = AddressRange::new(result as usize, range.len());
                tell(Operation::Unmap(replaced));
            }
            result
        })
    }

    /// Calls `act` with the gate closed, and with a function that it tells what it has changed.
    fn change_unannounced<T>(
        &self,
        range: AddressRange,
        act: impl FnOnce(&dyn Fn(Operation)) -> T,
    ) -> T {
        // A pager that waits may start in this moment.
        if !self.is_expected() {
            return act(&|_| ());
        }
        let _signals = SignalsBlocked::<O>::new();
        let is_seen = self.host.hears_of_forks.load(Relaxed) && !range.is_empty();
        let range = range.whole_pages();
        if is_seen {
            self.keep_in_place(range, Reason::BeingDropped);
        }
        let closed = self.host.gate.close();
        // With the gate closed nothing is registered, so nothing can be away that was not when this looks.
        let result = act(&|operation| match self.is_running() {
            true => self.deliver(operation),
            false => self.note_unmapped(operation),
        });
        drop(closed);
        if is_seen {
            self.host.exclusions.remove(range, Reason::BeingDropped);
        }
        result
    }

    /// A pager that waits is told of a change: nothing is away, but what was said of the memory is over with it.
    fn note_unmapped(&self, operation: Operation) {
        if let Operation::Unmap(range) = operation {
            self.host.exclusions.unmapped(range);
            self.host.not_inherited.subtract(range);
        }
    }

    /// Ends the exclusion of this range for `reason`.
    pub fn include(&self, range: AddressRange, reason: Reason) {
        if self.is_expected() {
            let _signals = SignalsBlocked::<O>::new();
            self.host.exclusions.remove(range, reason);
        }
    }

    /// Children find what is in this range again, and no longer zeros.
    pub fn keep_in_children(&self, range: AddressRange) {
        if self.is_expected() {
            let _signals = SignalsBlocked::<O>::new();
            // Without room for what is left beside it, all of it stays excluded.
            self.host.exclusions.subtract(range, Reason::WipedInChild);
        }
    }

    /// The program has kept a range from its children (`MADV_DONTFORK`).
    pub fn keep_from_children(&self, range: AddressRange) {
        if !self.is_expected() {
            return;
        }
        let _signals = SignalsBlocked::<O>::new();
        // Not while a fork is prepared, which takes marks back that the program has not set.
        let _no_fork = self.registering.lock();
        let _inside = self.after_events();
        if self.host.not_inherited.add(range) {
            // Once more: a fork by another thread may have taken the mark back before.
            // SAFETY: no content changes; the program has asked for it.
            unsafe { O::madvise(range.start, range.len(), os::MADV_DONTFORK) };
        } else {
            crate::machine::message::say(format_args!(
                "the program keeps more ranges from its children than can be remembered; they will \
                 have {:#x}",
                range.start
            ));
        }
    }

    /// The program lets its children have a range (again).
    pub fn let_children_inherit(&self, range: AddressRange) {
        if !self.is_expected() {
            return;
        }
        let _signals = SignalsBlocked::<O>::new();
        // Not during a fork, nor while one is prepared: what is marked then the child would not have.
        let _no_fork = self.registering.lock();
        let _inside = self.after_events();
        if !self.host.not_inherited.subtract(range) {
            crate::machine::message::say(format_args!(
                "the program keeps more ranges from its children than can be remembered; a child \
                 may not have {:#x}",
                range.start
            ));
        }
        let host = &self.host;
        // A child that waits still has its parent's windows, and no userfaultfd.
        if self.is_running() {
            host.for_each_registered_in(range, |segment, r| {
                host.keep_known_from_raw_clones(segment, r);
            });
        }
    }

    /// The program has moved, grown or cut `from`, which is `to` now. Called where [`unsplit`](Self::unsplit) calls `act`,
    /// so that no fork comes between the move and this.
    pub fn remapped(&self, from: AddressRange, to: AddressRange, old: OldPlace) {
        let moved = to.start != from.start;
        let grown = from.len() < to.len();
        let new = AddressRange {
            start: to.start + from.len(),
            ..to
        };
        if grown {
            self.drop_what_lay_before(new);
        }
        let marked = !self.host.not_inherited.is_empty();
        if !self.is_expected() || !moved && !grown && !marked {
            return;
        }
        // Before the first lock: a handler of the program that interrupts its holder may touch memory that is away, and
        // the pager may need that lock to answer.
        let _signals = SignalsBlocked::<O>::new();
        // A pager that waits has nothing registered; what its parent had is not to be asked.
        if grown && self.is_running() {
            self.note_grown(new);
        }
        let exclusions = &self.host.exclusions;
        if marked || MOVE_ALONG.iter().any(|&reason| exclusions.has(reason)) {
            let inside = self.after_events();
            if moved {
                for reason in MOVE_ALONG {
                    exclusions.moved(from, to, reason, old);
                }
            }
            if grown {
                exclusions.grown(new, Reason::WipedInChild);
            }
            match old {
                _ if !marked => {}
                OldPlace::Unmapped => self.host.not_inherited.remapped(from, to),
                OldPlace::Kept => self.host.not_inherited.copied(from, to),
            }
            drop(inside);
            // Between the move and this nothing was excluded here.
            let mut rest = to;
            while moved && let Some(part) = exclusions.first_part(rest, Reason::RobustMutex) {
                self.bring_back(part);
                rest.start = part.end;
            }
        }
    }

    /// Memory has grown by this range, where other memory may have lain before. That the other is unmapped an event has
    /// told; but what is registered again by the time that it is read is taken for an unmapping that has failed (ADR 0054),
    /// and the kernel tells nothing of growth. So what was there is dropped: nobody has touched the new memory yet but the
    /// kernel, which has populated it where it is locked; perhaps with what was there.
    fn drop_what_lay_before(&self, new: AddressRange) {
        if !self.has_run() {
            return;
        }
        // SAFETY: memory that its owner has not been told of.
        let advise = |advice| unsafe { O::madvise(new.start, new.len(), advice) } == 0;
        if advise(os::MADV_DONTNEED) {
            return;
        }
        // It is locked. Where it is not registered nothing of ours can have come there, and it may be a file's.
        if !self.may_be_registered(new.start - PAGE_SIZE) {
            return;
        }
        // Not all locked memory is populated (`MLOCK_ONFAULT`).
        let first = AddressRange::new(new.start, PAGE_SIZE);
        let is_populated = O::resident_if_mapped(first) == Ok(1);
        advise(os::MADV_DONTNEED_LOCKED);
        if is_populated && !advise(os::MADV_POPULATE_WRITE) {
            advise(os::MADV_POPULATE_READ);
        }
    }

    fn may_be_registered(&self, page: usize) -> bool {
        let host = &self.host;
        host.place_of(page).is_some_and(|(segment, index)| {
            let window = host.windows.get(segment);
            window.is_registered(index) || window.is_unproven(index)
        })
    }

    /// What a mapping has grown by is registered if the mapping is, and nobody tells of it.
    fn note_grown(&self, range: AddressRange) {
        let _inside = self.after_events();
        let host = &self.host;
        let is_registered = self.may_be_registered(range.start - PAGE_SIZE);
        for part in parts(range).filter(|_| is_registered) {
            if let Some(segment) = self.window_for(part.base) {
                host.leave_unproven(host.windows.get(segment), part.first, part.end);
            }
        }
    }

    /// Calls `act` (a system call that moves the memory of `range`) while `range` is registered
    /// whole or not at all. Called by a thread of the program.
    ///
    /// Registering a part of a mapping splits it. The kernel before 6.17 refuses to move what
    /// spans several mappings; later ones move them one by one, and stop with an error halfway
    /// where a registered one follows.
    ///
    /// `moving`: what of the range may move, and is not cut off.
    pub fn unsplit<T>(
        &self,
        range: AddressRange,
        moving: AddressRange,
        act: impl FnOnce() -> T,
    ) -> T {
        let range = range.whole_pages();
        if !self.is_expected() {
            return act();
        }
        let _signals = SignalsBlocked::<O>::new();
        let act = || {
            self.host.exclusions.begin_move(moving);
            let result = act();
            self.host.exclusions.end_move();
            result
        };
        let (mut attempts, began_ns) = (0, O::now_ns());
        loop {
            let registering = self.registering.lock();
            // A pager that waits has registered nothing, and does not while this is held.
            if !self.is_running() {
                return act();
            }
            let inside = self.after_events();
            let known = self.registration_of(range);
            drop(inside);
            if let Registration::Uniform = known {
                return act();
            }
            drop(registering);
            let answer = self.ask(REGISTER, range);
            match (answer, known) {
                (Ok(()), _) => attempts += 1,
                // An event is unread, or another thread is moving memory in this moment.
                (Err(Errno::AGAIN), _) => {
                    let waited_ns = O::now_ns().saturating_sub(began_ns);
                    attempts += u32::from(waited_ns > IN_THE_WAY_NS);
                    O::sleep_ns(100_000);
                }
                // It may be none of the pager's memory at all.
                (Err(errno), Registration::Unknown) if errno != Errno::NOENT => break,
                // A hole, which may be filled: or it is none.
                (Err(_), _) => {
                    attempts += 1;
                    O::sleep_ns(100_000);
                }
            }
            if attempts == ATTEMPTS {
                break;
            }
        }
        let _registering = self.registering.lock();
        act()
    }

    /// Gives a range up that the program wants to register with a userfaultfd of its own: its
    /// content is brought back, and it is left alone from now on. Called by a thread of the
    /// program. Whether it succeeded.
    pub fn surrender(&self, range: AddressRange) -> bool {
        if !self.is_running() {
            return false;
        }
        self.exclude(range, Reason::Asked);
        for _ in 0..ATTEMPTS {
            for part in parts(range) {
                let Some(id) = self.host.windows.find(&self.host.memory, part.base) else {
                    continue;
                };
                for index in part.first..part.end {
                    if !matches!(self.engine.entry(id, index), Entry::Empty | Entry::Page(_)) {
                        let address = self.host.windows.get(id).address(index);
                        // SAFETY: memory of the program that it has mapped readable: it is
                        // registered, and what is remembered of it was read from there.
                        unsafe { core::ptr::read_volatile(address as *const u8) };
                    }
                }
            }
            if self.ask(SURRENDER, range).is_ok() {
                return true;
            }
        }
        false
    }

    /// The program cannot wait for this memory: it is not taken from now on, and what was taken is
    /// brought back before this returns; or it can, and the memory is like any other. Called by a
    /// thread of the program. `false`: there is no more room to remember it.
    ///
    /// Memory that is unmapped or moved is like any other when its addresses are used again.
    pub fn advise(&self, range: AddressRange, sensitive: bool) -> bool {
        if !self.is_expected() {
            return true;
        }
        let exclusions = &self.host.exclusions;
        if !sensitive {
            let _signals = SignalsBlocked::<O>::new();
            return exclusions.subtract(range, Reason::LatencySensitive);
        }
        {
            let _signals = SignalsBlocked::<O>::new();
            let _inside = self.after_events();
            if !exclusions.add_if_room(range, Reason::LatencySensitive) {
                return false;
            }
        }
        self.bring_back(range);
        true
    }

    /// Brings back what is away of a range that was just excluded. A run that was found clear of exclusions before
    /// that may still be taken: its pages are claimed, under the lock under which this looks, from before it was
    /// checked until it is known which of them are away. So what is at rest once stays.
    ///
    /// What is being taken is waited for, however long that takes: who takes it does not wait for the program. What is away
    /// may never come back (poisoned, or nobody is left to bring it): that is waited for in vain for a while.
    fn bring_back(&self, range: AddressRange) {
        if !self.is_running() {
            return;
        }
        let (mut looks, mut pause_ns) = (0, FIRST_PAUSE_NS);
        while looks < PATIENCE {
            match self.touch_what_is_away(range) {
                Whereabouts::AtRest => return,
                Whereabouts::BeingTaken => {}
                Whereabouts::Away => looks += 1,
            }
            O::sleep_ns(pause_ns);
            pause_ns = (2 * pause_ns).min(LONGEST_PAUSE_NS);
        }
    }

    /// Has the kernel fault in what is away of a range, or being taken. Where the page is that will take longest.
    fn touch_what_is_away(&self, range: AddressRange) -> Whereabouts {
        let _signals = SignalsBlocked::<O>::new();
        let mut of_all = Whereabouts::AtRest;
        for part in parts(range) {
            let Some(id) = self.host.windows.find(&self.host.memory, part.base) else {
                continue;
            };
            for index in part.first..part.end {
                let of_page = self.engine.whereabouts(id, index);
                if of_page != Whereabouts::AtRest {
                    let address = self.host.windows.get(id).address(index);
                    // SAFETY: a read fault changes no content; where the program may not read, it is an error.
                    unsafe { O::madvise(address, PAGE_SIZE, os::MADV_POPULATE_READ) };
                }
                of_all = of_all.max(of_page);
            }
        }
        of_all
    }

    /// Lets the reclaim thread do something, and waits for it.
    fn ask(&self, what: u32, range: AddressRange) -> Result<(), Errno> {
        let _signals = SignalsBlocked::<O>::new();
        let request = &self.request;
        request.lock.lock();
        if !self.is_running() {
            // It has left: nobody would answer.
            // SAFETY: locked above.
            unsafe { request.lock.unlock() };
            return Err(Errno::SRCH);
        }
        request.start.store(range.start, Relaxed);
        request.end.store(range.end, Relaxed);
        request.state.store(what, Release);
        self.ring();
        wait_while::<O>(&request.state, what);
        let answer = request.answer.load(Relaxed);
        // SAFETY: locked above.
        unsafe { request.lock.unlock() };
        match answer {
            0 => Ok(()),
            code => Err(Errno::from_raw_os_error(code)),
        }
    }

    /// Has the pager leave, and waits until it has.
    pub(crate) fn ask_to_leave(&self) -> bool {
        self.ask(LEAVE, AddressRange::new(0, 0)).is_ok()
    }

    /// Has the handlers started, where they are not, and waits until they are.
    pub(crate) fn ask_for_handlers(&self) {
        let _ = self.ask(HANDLERS, AddressRange::new(0, 0));
    }

    /// Starts handlers, if that is asked for.
    pub(crate) fn serve_handlers(&self, start: impl FnOnce()) {
        let request = &self.request;
        if request.state.load(Acquire) == HANDLERS {
            start();
            request.answer(Ok(()));
        }
    }

    /// Whether all handlers are asked for.
    pub(crate) fn wants_handlers(&self) -> bool {
        self.request.state.load(Acquire) == HANDLERS
    }

    /// Leaves, if that is asked for. Called by the reclaim thread, which ends with it.
    pub(crate) fn serve_leave(&'static self, worker: &mut Worker<Codec>) {
        let request = &self.request;
        if request.state.load(Acquire) != LEAVE {
            return;
        }
        let left = O::leave(self, worker);
        request.answer(left.then_some(()).ok_or(Errno::BUSY));
        if left {
            self.leaving.thread_goes::<O>();
        }
    }

    /// What is known of the registration of a range.
    fn registration_of(&self, range: AddressRange) -> Registration {
        let (mut some, mut all, mut was_ours, mut unproven) = (false, true, false, false);
        for part in parts(range) {
            match self.host.windows.find(&self.host.memory, part.base) {
                None => all = false,
                Some(id) => {
                    let window = self.host.windows.get(id);
                    unproven |= window.next_unproven(part.first, part.end) < part.end;
                    for index in part.first..part.end {
                        let registered = window.is_registered(index);
                        some |= registered;
                        all &= registered;
                    }
                    let first = part.first - part.first % LEAF_PAGES;
                    let mut leaves = (first..part.end).step_by(LEAF_PAGES as usize);
                    was_ours |= leaves.any(|leaf| self.engine.has_leaf(id, leaf));
                }
            }
        }
        let unregistered = || self.host.statistics().unregistrations.load(Relaxed) != 0;
        match (some, all) {
            (true, false) => Registration::Parts,
            _ if unproven => Registration::Unknown,
            (false, _) if was_ours && unregistered() => Registration::Unknown,
            _ => Registration::Uniform,
        }
    }

    /// Does what is asked for. Called by the reclaim thread.
    pub(crate) fn serve_request(&self) {
        self.serve_control();
        let request = &self.request;
        let what = request.state.load(Acquire);
        let range = AddressRange {
            start: request.start.load(Relaxed),
            end: request.end.load(Relaxed),
        };
        request.answer(match what {
            NONE | LEAVE | HANDLERS => return,
            SURRENDER => self.give_up(range).then_some(()).ok_or(Errno::BUSY),
            _ => self.register_parts(range),
        });
    }

    fn register_parts(&self, range: AddressRange) -> Result<(), Errno> {
        let mut whole = Ok(());
        for part in parts(range) {
            let segment = self.window_for(part.base).ok_or(Errno::NOMEM)?;
            let _inside = self.host.gate.enter_in_turn();
            let range = AddressRange {
                start: part.base + part.first as usize * PAGE_SIZE,
                end: part.base + part.end as usize * PAGE_SIZE,
            };
            whole = whole.and(self.register_in_window(segment, range));
        }
        whole
    }

    fn give_up(&self, range: AddressRange) -> bool {
        let Some(uffd) = self.host.uffd.get() else {
            return false;
        };
        let _closed = self.host.gate.close();
        let in_place = parts(range).all(|part| {
            let window = self.host.windows.find(&self.host.memory, part.base);
            window.is_none_or(|id| {
                (part.first..part.end).all(|index| {
                    matches!(self.engine.entry(id, index), Entry::Empty | Entry::Page(_))
                })
            })
        });
        // SAFETY: nothing of the range is remembered but what is in place.
        if !in_place || unsafe { uffd.unregister(range) }.is_err() {
            return false;
        }
        self.deliver(Operation::Unmap(range));
        // SAFETY: no content changes.
        unsafe { O::madvise(range.start, range.len(), os::MADV_DOFORK) };
        // The change above has ended the exclusion with everything else.
        self.host.exclusions.add(range, Reason::Asked);
        true
    }
}
