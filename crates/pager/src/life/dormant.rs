//! Waiting before starting: in the programs that the first one starts.
//!
//! Most of what a build or a script starts is over within milliseconds, and starting a pager takes
//! one; most of the rest are shells and drivers that hold a few hundred kilobytes, and fork. So the
//! constructor only maps a stack and makes one thread, which sleeps. It starts the pager when
//! the program has lived for `PATIENCE_NS` and holds `LEAST_BYTES`, or holds a share of its budget
//! before that. Until then the pager takes nothing, and what the program says of its memory
//! (`exclusions`, `not_inherited`) is only written down, and follows it where it moves.
//!
//! ```text
//!  NONE (the pager starts at once, or never)
//!  WAITING ──▶ STARTING ──▶ OVER (it runs, or could not start: the program goes on without it)
//!      ▲           │ a fork came first
//!      └───────────┘
//! ```
//!
//! * I1: the pager does not start while a fork is under way: a child would have half of one. Who forks
//!   counts itself and then looks at the state; the waiting thread sets the state and then looks at the
//!   count. (Both are sequentially consistent, so one of them sees the other.)
//! * I2: a child of a fork waits anew, with a thread of its own; and so does the child of a process that has a pager
//!   but nothing away.
//! * I3: until its sleep is over the thread shares the program's descriptors: a copy would keep open what the
//!   program closes. Afterwards it has a table of its own, in which nothing of the program's stays.
//!
//! Where the pager cannot start the program goes on without: it was not asked for by name. `coldpress run`
//! names it at the end. Only in the first program something is said at once.

use crate::Pager;
use crate::life::departure::Departure;
use crate::life::start;
use crate::life::start::StartError;
use crate::machine::futex::{set_and_wake, wait_while};
use crate::machine::linux::{Linux, Statm};
use crate::machine::os::Meter;
use crate::machine::together::{Call, disperse};
use crate::reclaim::turns as reclaim;
use coldpress_linux::sys;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, SeqCst},
};

const NONE: u32 = 0;
const WAITING: u32 = 1;
const STARTING: u32 = 2;
const OVER: u32 = 3;

/// A program that has lived so long is worth a pager, if it holds so much.
const PATIENCE_NS: u64 = 50_000_000;
const LEAST_BYTES: u64 = 4 << 20;
/// What it holds is not looked at before this time, in which fresh memory grows by 30 MiB at most.
const FIRST_LOOK_NS: u64 = 15_000_000;
const LOOK_NS: u64 = 5_000_000;
/// The child of a fork is not looked at until it has run for so long, or lived for so long.
const YOUTH_RUN_NS: u64 = 10_000_000;
const YOUTH_NS: u64 = 500_000_000;
/// How often it is looked at when it has lived for that long.
const LATER_LOOK_NS: u64 = 50_000_000;
/// It is worth one sooner if it holds this share of its budget.
const BUDGET_SHARE: u64 = 4;

/// Whether the pager waits with starting.
pub struct Dormant {
    state: AtomicU32,
    forks: AtomicU32,
    thread: AtomicU32,
    /// What is known of memory is the parent's, and nobody has been told since.
    stale: AtomicBool,
}

impl Default for Dormant {
    fn default() -> Self {
        Self::new()
    }
}

impl Dormant {
    /// It does not.
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(NONE),
            forks: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            stale: AtomicBool::new(false),
        }
    }

    /// Whether it waits, or starts in this moment.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state.load(Acquire), WAITING | STARTING)
    }

    /// The thread that waits, or has waited, if there still is one.
    pub(crate) fn thread(&self) -> Option<u32> {
        let thread = self.thread.load(SeqCst);
        (thread != 0 && sys::is_thread(thread)).then_some(thread)
    }

    /// The thread that waits, which is not there in a process that only shares this one's memory.
    pub(crate) fn waiting_thread(&self) -> Option<u32> {
        let thread = self.thread.load(SeqCst);
        (self.is_waiting() && thread != 0).then_some(thread)
    }

    /// Waiting is over: the pager runs, or never will.
    pub(crate) fn end(&self) {
        set_and_wake::<Linux>(&self.state, OVER);
    }
}

impl Pager {
    /// Begins to wait. The pager's memory has a place, and none of its threads exists.
    pub(crate) fn begin_to_wait(&'static self) -> Result<(), StartError> {
        let stack = self.host.memory.stack().ok_or(StartError::Memory)?;
        self.dormant.state.store(WAITING, SeqCst);
        let call = Call::begin();
        // SAFETY: a stack that nobody else has.
        let thread = unsafe {
            sys::start_thread(
                stack,
                sys::Role::Reclaim,
                sys::Descriptors::Shared,
                wait,
                self,
                0,
            )
        };
        match thread {
            Ok(thread) => {
                call.thread(thread);
                self.dormant.thread.store(thread, SeqCst);
            }
            Err(_) => self.dormant.end(),
        }
        thread.map(|_| ()).map_err(|_| StartError::Thread)
    }

    /// In the child of a fork, in which nothing is away: it waits as a program does that has just been started. The
    /// thread is made by [`Pager::after_fork_in_child`].
    pub(crate) fn wait_in_child(&self) {
        self.forget_parent();
        let dormant = &self.dormant;
        dormant.stale.store(true, SeqCst);
        dormant.state.store(WAITING, SeqCst);
    }

    /// Waits again, where the pager has left while it waited.
    pub(crate) fn wait_again(&'static self) -> bool {
        self.host.memory.reset_stacks();
        self.begin_to_wait().is_ok()
    }
}

/// The thread: sleeps, then starts the pager and is its reclaim thread.
extern "C" fn wait(pager: &'static Pager, _: usize) -> ! {
    let dormant = &pager.dormant;
    start::stay_out_of_the_way();
    sys::sleep_ns(FIRST_LOOK_NS);
    if dormant.stale.load(SeqCst) {
        dormant.stay_young();
    }
    if !sys::unshare_descriptors() {
        dormant.end();
        sys::exit_thread();
    }
    disperse();
    start::close_descriptors([pager.inherited_device(), None]);
    // SAFETY: this is the only thread of the pager.
    unsafe { pager.leaving.reset() };
    pager.sleep_on();
    loop {
        let starting = dormant
            .state
            .compare_exchange(WAITING, STARTING, SeqCst, SeqCst);
        if starting.is_err() {
            sys::exit_thread();
        }
        if dormant.forks.load(SeqCst) == 0 {
            let is_forked = dormant.stale.swap(false, SeqCst);
            if is_forked {
                pager.forget_everything();
            }
            pager.start_here(is_forked);
        }
        set_and_wake::<Linux>(&dormant.state, WAITING);
        sys::sleep_ns(LOOK_NS / 5);
    }
}

impl Dormant {
    /// Most children end soon, and all that a process has opened of `/proc` costs when it has ended: nothing is looked
    /// at before the child has run for a while, or lived for longer.
    fn stay_young(&self) {
        let mut slept = FIRST_LOOK_NS;
        while slept < YOUTH_NS && reclaim::ran_ns::<Linux>() < YOUTH_RUN_NS && self.is_waiting() {
            sys::sleep_ns(LOOK_NS);
            slept += LOOK_NS;
        }
    }
}

impl Pager {
    /// Until the program is worth a pager.
    fn sleep_on(&'static self) {
        let Some(statm) = Statm::open() else {
            return; // Starting fails for the same reason.
        };
        let enough = self.config().budget_bytes / BUDGET_SHARE;
        let mut departure = Departure::watch(self);
        let mut slept = FIRST_LOOK_NS;
        while !is_worth_it(slept, statm.private_anonymous_bytes(), enough) {
            if !self.dormant.is_waiting() {
                return; // The pager has left.
            }
            let pause = if slept < PATIENCE_NS {
                LOOK_NS
            } else {
                LATER_LOOK_NS
            };
            departure.wait(pause);
            slept += pause;
        }
    }
}

fn is_worth_it(lived_ns: u64, holds_bytes: u64, enough_bytes: u64) -> bool {
    holds_bytes >= enough_bytes || lived_ns >= PATIENCE_NS && holds_bytes >= LEAST_BYTES
}

impl Dormant {
    /// Before a fork, in the forking thread: the pager does not start until it is over.
    pub fn before_fork(&self) {
        self.forks.fetch_add(1, SeqCst);
        while self.state.load(SeqCst) == STARTING {
            wait_while::<Linux>(&self.state, STARTING);
        }
    }

    /// Ends waiting: there will be no pager. Called with forks counted, so that none starts. Whether it waited.
    pub(crate) fn leave(&self) -> bool {
        let state = &self.state;
        if state
            .compare_exchange(WAITING, OVER, SeqCst, SeqCst)
            .is_err()
        {
            return false;
        }
        // It looks often enough: what would wake it stands in a table of descriptors that is not this thread's.
        let thread = self.thread.load(SeqCst);
        while sys::is_thread(thread) {
            sys::sleep_ns(100_000);
        }
        true
    }

    /// After a fork, in the parent.
    pub fn after_fork_in_parent(&self) {
        self.forks.fetch_sub(1, SeqCst);
    }
}

impl Pager {
    /// After a fork, in the child: its only thread.
    pub fn after_fork_in_child(&'static self) {
        self.dormant.forks.store(0, SeqCst);
        let held_notes = self.fork.no_longer_holds_notes_in_child();
        if held_notes {
            // SAFETY: this is the only thread of the process.
            unsafe { self.registering.raw().reset() };
        }
        // A thread that wanted to start has found the fork under way, and has just not said yet that it waits.
        if matches!(self.dormant.state.load(SeqCst), WAITING | STARTING) {
            self.wait_as_the_parent();
        }
        if held_notes {
            self.end_hold_of_notes();
        }
    }

    /// In the child of a process that waits. Its only thread.
    fn wait_as_the_parent(&'static self) {
        // The child of one that waits is seen by this hook alone.
        self.presence.is_here_again();
        self.host.gate.reset();
        self.host.memory.reset_stacks();
        // SAFETY: this is the only thread of the process.
        unsafe {
            self.host.exclusions.reset_lock();
            self.host.not_inherited.reset();
            self.leaving.forget();
        }
        // Without a pager the child goes on: none of its memory is away.
        let _ = self.begin_to_wait();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn programs_are_worth_a_pager_that_hold_much_or_live_long() {
        const ENOUGH: u64 = 256 << 20;
        for (lived_ns, holds_bytes, worth) in [
            (FIRST_LOOK_NS, ENOUGH, true),
            (FIRST_LOOK_NS, ENOUGH - 1, false),
            (PATIENCE_NS, LEAST_BYTES, true),
            (PATIENCE_NS - 1, LEAST_BYTES, false),
            (1000 * PATIENCE_NS, LEAST_BYTES - 1, false),
        ] {
            assert_eq!(is_worth_it(lived_ns, holds_bytes, ENOUGH), worth);
        }
    }

    #[test]
    fn nothing_starts_while_a_fork_is_under_way() {
        static PAGER: Pager = Pager::new();
        let dormant = &PAGER.dormant;
        assert!(!dormant.is_waiting());
        dormant.state.store(STARTING, SeqCst);
        let forked = std::thread::spawn(|| PAGER.dormant.before_fork());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!forked.is_finished(), "it starts: the fork waits");
        set_and_wake::<Linux>(&dormant.state, WAITING);
        forked.join().unwrap();
        assert_eq!(dormant.forks.load(SeqCst), 1);
        assert!(dormant.is_waiting());
        dormant.after_fork_in_parent();
        assert_eq!(dormant.forks.load(SeqCst), 0);
        dormant.end();
        dormant.before_fork();
        PAGER.after_fork_in_child();
        assert_eq!(dormant.forks.load(SeqCst), 0);
        assert!(!dormant.is_waiting(), "a pager that ran, or could not");
    }

    #[test]
    fn a_fork_waits_for_a_move_and_its_note() {
        static PAGER: Pager = Pager::new();
        PAGER.presence.is_here_again();
        PAGER.dormant.state.store(WAITING, SeqCst);
        let range = coldpress_uffd::AddressRange::new(0x10000, 0x1000);
        let (tell, is_told) = std::sync::mpsc::channel::<()>();
        let mover = std::thread::spawn(move || {
            PAGER.unsplit(range, range, || is_told.recv().expect("it is told"))
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        let forks = std::thread::spawn(move || {
            PAGER.dormant.before_fork();
            PAGER.fork_prepare(|| ());
            // As in the parent: what another thread wants to move now waits.
            let moved = std::thread::spawn(move || PAGER.unsplit(range, range, || ()));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!moved.is_finished(), "it moves while a fork is under way");
            PAGER.fork_parent();
            PAGER.dormant.after_fork_in_parent();
            moved.join().unwrap();
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!forks.is_finished());
        tell.send(()).unwrap();
        mover.join().unwrap();
        forks.join().unwrap();
    }
}
