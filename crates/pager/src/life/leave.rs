//! The pager leaves a process, which goes on without.
//!
//! For what a program can do natively and not beside the pager's threads: enter a user namespace (the kernel wants a
//! process of one thread), or forbid all its threads calls that the pager needs. [`Pager::leave`] puts every page in
//! place, ends the registration of all memory, closes the pager's descriptors and ends its threads.
//!
//! ```text
//!  program's thread        reclaim thread              handlers           watchdog
//!  no fork meanwhile
//!  ask ──────────────────▶ restores all that is away   answer as ever
//!                          gate closed: nothing away?
//!                          BEGUN, event ──────────────────────────────────▶ touches staging
//!                                                      wake, see BEGUN,  ◀─┘ (sleeps in the fault)
//!                                                      end
//!                          closes the userfaultfd ─────────────────────────▶ wakes, ends
//!                          memory to children again
//!  … goes on ◀──────────── answers, ends
//! ```
//!
//! * I1: nothing is taken out from the moment when the reclaim thread begins, since it is the one that takes; so what is
//!   seen at rest with the gate closed stays.
//! * I2: threads that wait for a fault or an event when the userfaultfd is closed go on as without one: what they touch
//!   is in place, or was never there.
//! * I3: no fork is under way (the asking thread holds the lock of forks, or the reclaim thread leaves of its own accord,
//!   which is what a fork waits for), so nobody relies on the pager being still.
//!
//! What remains: the reservation with its tables, a few hundred kilobytes, and the statistics page.

use crate::machine::futex::{add_and_wake, set_and_wake, wait_while};
use crate::machine::late::Late;
use crate::machine::linux::Linux;
use crate::machine::message;
use crate::machine::os::{Os, SignalsBlocked};
use crate::machine::visit;
use crate::{Codec, Pager};
use coldpress_engine::{Access, Entry, LEAF_PAGES, SEGMENT_PAGES, Worker};
use coldpress_linux::filter;
use coldpress_linux::filter::{Instruction, Scope, State, Verdict};
use coldpress_linux::sys;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use linux_raw_sys::general as nr;
use rustix::event::EventfdFlags;
use rustix::fd::{AsRawFd, OwnedFd};

/// How often what is away is looked for again: a tenth of a millisecond apart first, ten milliseconds later.
const ATTEMPTS: u32 = 200;

/// How long it is waited for the kernel to be through with threads that have ended, at most.
const GONE_NS: u64 = 2_000_000_000;

/// Whether the pager leaves.
pub struct Leaving {
    /// 1: threads end.
    begun: AtomicU32,
    /// Threads that have ended, but for the reclaim thread.
    gone: AtomicU32,
    /// Readable once it has begun, for the thread that sleeps longest.
    event: Late<OwnedFd>,
}

impl Default for Leaving {
    fn default() -> Self {
        Self::new()
    }
}

impl Leaving {
    /// It stays.
    pub const fn new() -> Self {
        Self {
            begun: AtomicU32::new(0),
            gone: AtomicU32::new(0),
            event: Late::new(),
        }
    }

    /// It stays: at each start. Called by the pager's first thread, which has descriptors of its own.
    ///
    /// # Safety
    /// There is no other thread of the pager.
    pub(crate) unsafe fn reset(&self) {
        self.begun.store(0, Relaxed);
        self.gone.store(0, Relaxed);
        if let Ok(event) = rustix::event::eventfd(0, EventfdFlags::CLOEXEC) {
            // SAFETY: as the caller promises.
            unsafe { self.event.set(event) };
        }
    }

    /// It stays, and the event is the parent's: in the child of a fork, where its number stands for something of the
    /// program's.
    ///
    /// # Safety
    /// This is the only thread of the process.
    pub(crate) unsafe fn forget(&self) {
        self.begun.store(0, Relaxed);
        self.gone.store(0, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { self.event.unset() };
    }

    /// What becomes readable once it has begun.
    pub(crate) fn event(&self) -> Option<&OwnedFd> {
        self.event.get()
    }

    /// Whether threads of the pager shall end.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Acquire) != 0
    }

    /// Threads shall end. In a thread of the pager: the event is nothing of the program's.
    fn begin(&self) {
        self.begun.store(1, Release);
        if let Some(event) = self.event() {
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// Makes the userfaultfd readable until it is closed: all handlers wake, and look.
    pub(crate) fn wake_handlers(&self, staging: AddressRange) {
        // SAFETY: a page of staging, which is empty: nothing is being taken out.
        unsafe { sys::madvise(staging.start, PAGE_SIZE, sys::MADV_POPULATE_READ) };
    }

    /// Ends the calling thread, one of the pager's.
    pub(crate) fn thread_goes<O: Os>(&self) -> ! {
        add_and_wake::<O>(&self.gone);
        O::exit_thread()
    }

    fn wait_until_gone(&self, threads: u32) {
        loop {
            let gone = self.gone.load(Acquire);
            if gone >= threads {
                return;
            }
            wait_while::<Linux>(&self.gone, gone);
        }
    }
}

impl Pager {
    /// Leaves the process, which goes on unmanaged: all its memory is in place and nobody's but its own, and no thread
    /// of the pager is left. Called by a thread of the program. `false`: memory could not be restored (there is none),
    /// and the pager stays.
    pub fn leave(&self) -> bool {
        let _signals = SignalsBlocked::<Linux>::new();
        self.dormant.before_fork();
        let left = self.dormant.leave() || {
            self.fork.lock_out();
            let left = !self.is_running() || self.ask_to_leave();
            self.fork.let_in();
            left
        };
        self.dormant.after_fork_in_parent();
        if left {
            self.wait_for_the_kernel();
        }
        left
    }
}

impl Pager {
    /// Leaves, and closes what it had reserved: what comes then reads all memory that can be read, gigabytes
    /// of nothing among it. There is no way back.
    pub fn leave_nothing_to_read(&self) -> bool {
        let left = self.leave();
        let reserved = self.host.memory.range();
        if left && !reserved.is_empty() {
            // SAFETY: no thread of the pager is left, and what threads of the program ask it ends before its tables.
            unsafe {
                sys::syscall(
                    nr::__NR_mprotect,
                    [reserved.start, reserved.len(), 0, 0, 0, 0],
                )
            };
        }
        left
    }

    /// Calls `act`, which needs a process of one thread, without the pager, which comes back afterwards where it can.
    /// `None`: the pager could not leave, or the program has other threads itself.
    pub fn absent<T>(&'static self, act: impl FnOnce() -> T) -> Option<T> {
        // It does not start meanwhile, nor is it just making its threads.
        self.dormant.before_fork();
        let is_alone = self.is_alone_with_the_program();
        let done = is_alone.then(|| self.absent_while_none_starts(act));
        self.dormant.after_fork_in_parent();
        done.flatten()
    }

    fn absent_while_none_starts<T>(&'static self, act: impl FnOnce() -> T) -> Option<T> {
        let was_dormant = self.dormant.is_waiting();
        // Afterwards the program may not be allowed to open one.
        let ahead = (!was_dormant).then(|| self.open_ahead()).flatten();
        if !self.leave() {
            return None;
        }
        let done = act();
        let _signals = SignalsBlocked::<Linux>::new();
        let came_back = match ahead {
            Some(uffd) => self.start_again(uffd).is_ok(),
            None => was_dormant && self.wait_again(),
        };
        if !came_back {
            message::say(format_args!(
                "the program goes on without compression: the pager had to leave it for a moment, and could not \
                 come back"
            ));
        }
        Some(done)
    }

    /// What a seccomp filter would do to the pager. The threads that it needs are there when this returns: none is
    /// made under the filter.
    pub fn judge_filter(&self, filter: &[Instruction], scope: Scope) -> Verdict {
        let state = if self.dormant.is_waiting() {
            State::Waits
        } else {
            State::Runs
        };
        let verdict = match filter::judge(filter, scope, state) {
            Verdict::Bearable => filter::judge_writing_back(filter, self.tier.write_back()),
            verdict => verdict,
        };
        let is_for_running = (scope, state) == (Scope::AllThreads, State::Runs);
        self.filtered
            .fetch_or(verdict == Verdict::Bearable, Relaxed);
        if verdict == Verdict::Bearable && is_for_running {
            self.ask_for_handlers();
            visit::forbid();
        }
        verdict
    }

    /// Calls `act` without the pager, which comes back only where `is_done` denies that the result is success, and the
    /// program has no thread that could have done anything meanwhile.
    pub fn absent_from_now_on(
        &'static self,
        act: impl FnOnce() -> isize,
        is_done: impl FnOnce(isize) -> bool,
    ) -> isize {
        // Looking may be forbidden by a filter from before.
        let is_alone = !self.is_filtered() && self.is_alone_with_the_program();
        let waits = self.dormant.is_waiting();
        let left = self.is_running() && self.leave() || self.dormant.is_waiting() && self.leave();
        let result = act();
        let is_installed = is_done(result);
        self.filtered.fetch_or(is_installed, Relaxed);
        if is_alone && left && !is_installed {
            let _signals = SignalsBlocked::<Linux>::new();
            // What is known of memory may be that of a parent: it is forgotten when waiting is over.
            let _ = match waits {
                true => self.wait_again(),
                false => self
                    .open_ahead()
                    .is_some_and(|uffd| self.start_again(uffd).is_ok()),
            };
        }
        result
    }

    /// Whether the pager's threads are threads of the calling process. They are not in one that only shares its memory:
    /// a child of `vfork` before it executes something.
    pub fn is_of_this_process(&self) -> bool {
        let thread = self.threads.ids().next().or(self.dormant.waiting_thread());
        thread.is_none_or(sys::is_thread)
    }

    /// Whether the program has one thread beside the pager's.
    fn is_alone_with_the_program(&self) -> bool {
        self.threads_of_the_program() == Some(1)
    }

    /// How many threads there are beside the pager's. `None`: nothing tells (there is no `/proc`).
    pub fn threads_of_the_program(&self) -> Option<u64> {
        const OTHER_LINKS: u64 = 2;
        let tasks = rustix::fs::stat(c"/proc/self/task").ok()?;
        let own = |thread| self.threads.ids().any(|own| own == thread);
        // One that waits with starting is none of those yet.
        let waits = self.dormant.thread().filter(|&thread| !own(thread));
        let own = self.threads.ids().count() + waits.iter().count();
        tasks.st_nlink.checked_sub(own as u64 + OTHER_LINKS)
    }
}

impl Pager {
    /// Threads that have said that they end are still listed for a moment.
    fn wait_for_the_kernel(&self) {
        let deadline = sys::now_ns() + GONE_NS;
        let is_listed = || self.threads.ids().any(sys::is_thread);
        while is_listed() && sys::now_ns() < deadline {
            sys::sleep_ns(50_000);
        }
        self.threads.reset();
    }

    /// Leaves. Called by the reclaim thread between two rounds; afterwards it has to end. `false`: the pager stays.
    pub(crate) fn leave_now(&'static self, worker: &mut Worker<Codec>) -> bool {
        if !self.watch() {
            return false;
        }
        let was_hopeless = self.pressure.hopeless.swap(true, Relaxed);
        if !self.restore_everything(worker) {
            self.pressure.hopeless.store(was_hopeless, Relaxed);
            return false;
        }
        self.publish_last();
        self.stop();
        // Nor does a fork that has just begun, and has locked nobody out, wait for this thread to rest.
        set_and_wake::<Linux>(&self.fork.paused, 1);
        // The watchdog touches it to wake the handlers, which nobody answers. The program may have populated it.
        if let Some(uffd) = self.host.uffd.get() {
            let staging = self.host.memory.staging();
            // SAFETY: staging, which holds nothing of the program's any more; unregistered while it is dropped (I3).
            unsafe {
                let _ = uffd.unregister(staging);
                sys::madvise(staging.start, staging.len(), sys::MADV_DONTNEED);
                let _ = uffd.register(staging);
            }
        }
        self.leaving.begin();
        // The watchdog comes last: it sleeps until the userfaultfd is closed.
        let handlers = self.handler_count.load(Relaxed) as u32;
        self.duty.call_all(handlers as usize);
        self.leaving.wait_until_gone(handlers);
        self.forget_everything();
        if let Some(uffd) = self.host.uffd.get() {
            use rustix::fd::AsFd;
            let fd = uffd.as_fd().as_raw_fd() as u32;
            // In the pager's own table: nobody uses the number again.
            sys::close_range(fd, fd);
        }
        self.inherit();
        self.leaving.wait_until_gone(handlers + 1);
        // The watchdog's touch has put a page of zeros there: a pager that comes back would take it for content.
        let staging = self.host.memory.staging();
        // SAFETY: nobody uses staging, and it is registered no longer.
        unsafe { sys::madvise(staging.start, staging.len(), sys::MADV_DONTNEED) };
        true
    }

    /// What the figures were at last.
    fn publish_last(&self) {
        if let Some(measured) = crate::reclaim::turns::measure_once::<Linux>() {
            self.publish(measured);
        }
        self.publish_slow_figures();
        self.publish_windows();
        self.publish_cpu_time();
        self.write_lock_trace();
        self.write_decisions();
        self.host.statistics().pager_left.store(1, Relaxed);
    }

    /// Brings back all that is away, until with the gate closed nothing is.
    fn restore_everything(&self, worker: &mut Worker<Codec>) -> bool {
        let gate = &self.host.gate;
        for attempt in 0..ATTEMPTS {
            self.for_each_away(|segment, index| {
                self.engine
                    .fault(self, worker, segment, index, Access::Read);
            });
            let closed = gate.close();
            let mut away = 0;
            self.for_each_away(|_, _| away += 1);
            if away == 0 {
                return true;
            }
            drop(closed);
            sys::sleep_ns(100_000 << attempt.min(6));
        }
        false
    }

    fn for_each_away(&self, mut with: impl FnMut(u32, u32)) {
        let engine = &self.engine;
        for (segment, _) in self.host.windows.iter() {
            for leaf in (0..SEGMENT_PAGES).step_by(LEAF_PAGES as usize) {
                if !engine.has_leaf(segment, leaf) {
                    continue;
                }
                for index in leaf..leaf + LEAF_PAGES {
                    if !matches!(
                        engine.entry(segment, index),
                        Entry::Empty | Entry::Page(_) | Entry::Poisoned
                    ) {
                        with(segment, index);
                    }
                }
            }
        }
    }

    /// All is in place and nobody is told of changes any more: what is known means nothing from now on.
    pub(crate) fn forget_everything(&self) {
        let host = &self.host;
        let _closed = host.gate.close();
        self.fork.inherited.store(false, Relaxed);
        for (segment, window) in host.windows.iter() {
            window.clear_registered(0, SEGMENT_PAGES);
            self.engine.decommit(self, segment, 0, SEGMENT_PAGES);
        }
        self.engine
            .with_storage_locked(|_| host.memory.release_all());
    }
}
