//! Locks for pager threads, on the futex system call: no libc, no allocation, valid when zeroed.
//!
//! * [`FutexLock`]: a mutex (0 free, 1 held, 2 held and somebody sleeps).
//! * [`Gate`]: many may be *inside*, or one holds it *closed*.
//!
//! Both spin for about a microsecond before they sleep: what they guard takes less.

use crate::machine::linux::Linux;
use crate::machine::lock_trace::{self as trace, Taking};
use crate::machine::os::Os;
use crate::machine::ranks;
use coldpress_arena::Zeroable;
use coldpress_engine::lock::{self, HeldRanks};
use core::marker::PhantomData;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use lock_api::{GuardSend, RawMutex};

/// Whether threads of the program are checked: the pager manages this process.
static CHECKED: AtomicBool = AtomicBool::new(false);

/// From now on debug builds check, or do not, that a thread of the program blocks all signals before it takes a lock: a
/// handler that interrupts it could touch memory that is away, and whoever answers may need that lock.
pub(crate) fn check_signals(checked: bool) {
    CHECKED.store(checked, Relaxed);
}

#[cfg(debug_assertions)]
fn assert_no_signal_comes<O: Os>() {
    if CHECKED.load(Relaxed)
        && O::held_ranks().is_none()
        && let Some(signal) = O::signal_that_may_come()
    {
        crate::machine::message::say(format_args!(
            "a lock of the pager is taken while signal {signal} may come"
        ));
        O::abort()
    }
}

#[cfg(not(debug_assertions))]
fn assert_no_signal_comes<O: Os>() {}

/// Sleeps until `word` is no longer `value` (spurious returns allowed).
pub fn wait_while<O: Os>(word: &AtomicU32, value: u32) {
    while word.load(Acquire) == value {
        O::wait_on(word, value, None);
    }
}

/// Sleeps until `word` is no longer `value`, or for `ns` nanoseconds, or less.
pub fn wait_for<O: Os>(word: &AtomicU32, value: u32, ns: u64) {
    O::wait_on(word, value, Some(ns));
}

/// Sets `word` and wakes everybody who waits for it.
pub fn set_and_wake<O: Os>(word: &AtomicU32, value: u32) {
    word.store(value, Release);
    O::wake(word, i32::MAX as u32);
}

/// Changes `word` and wakes everybody who waits for it.
pub fn add_and_wake<O: Os>(word: &AtomicU32) {
    word.fetch_add(1, Release);
    O::wake(word, i32::MAX as u32);
}

/// A mutex.
#[derive(Debug)]
#[repr(transparent)]
pub struct FutexLock<O: Os = Linux> {
    state: AtomicU32,
    os: PhantomData<fn() -> O>,
}

impl<O: Os> FutexLock<O> {
    /// Frees the lock by force: for the child of a fork, in which its holder does not exist.
    pub fn reset(&self) {
        self.state.store(0, Relaxed);
    }

    fn address(&self) -> usize {
        (&raw const *self) as usize
    }

    fn try_once(&self) -> bool {
        self.state.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Takes the lock.
    fn take(&self) -> Taking {
        for spins in 0..O::SPINS {
            if self.try_once() {
                return Taking::after(spins);
            }
            core::hint::spin_loop();
        }
        while self.state.swap(2, Acquire) != 0 {
            O::wait_on(&self.state, 2, None);
        }
        Taking::Waited
    }
}

// SAFETY: an atomic; zero is "free".
unsafe impl<O: Os> Zeroable for FutexLock<O> {}

impl<O: Os> HeldRanks for FutexLock<O> {
    fn held() -> Option<&'static AtomicU32> {
        O::held_ranks()
    }
}

// SAFETY: the compare-and-swap lets one thread in at a time.
unsafe impl<O: Os> RawMutex for FutexLock<O> {
    #[allow(clippy::declare_interior_mutable_const)] // the constant is lock_api's way to a new lock
    const INIT: Self = Self {
        state: AtomicU32::new(0),
        os: PhantomData,
    };

    type GuardMarker = GuardSend;

    fn lock(&self) {
        assert_no_signal_comes::<O>();
        O::step();
        let asked_ns = trace::asked();
        let taking = self.take();
        trace::taken(self.address(), asked_ns, taking);
    }

    fn try_lock(&self) -> bool {
        assert_no_signal_comes::<O>();
        O::step();
        let asked_ns = trace::asked();
        let taken = self.try_once();
        if taken {
            trace::taken(self.address(), asked_ns, Taking::AtOnce);
        }
        taken
    }

    unsafe fn unlock(&self) {
        O::step();
        trace::given(self.address());
        if self.state.swap(0, Release) == 2 {
            O::wake(&self.state, 1);
        }
    }
}

const CLOSED: u32 = 1 << 31;
const SLEEPERS: u32 = 1 << 30;
/// One of those who wait to close the gate; their number has ten bits.
const CLOSER: u32 = 1 << 20;
const CLOSERS: u32 = SLEEPERS - CLOSER;
const INSIDE: u32 = CLOSER - 1;

/// Many inside, or one that holds it closed.
///
/// Who waits to close it is counted. A handler that comes to install a page goes inside all the
/// same (its stay is short, and before it comes again it has to close the gate itself), but whoever
/// goes inside again and again without ever closing it, as reclaim does, has to
/// [wait its turn](Gate::enter_in_turn): otherwise nobody could close it for as long as that goes
/// on, and closing it is how faults are read.
#[derive(Debug)]
pub struct Gate<O: Os = Linux> {
    state: AtomicU32,
    os: PhantomData<fn() -> O>,
}

impl<O: Os> Default for Gate<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Gate<O> {
    /// An open gate with nobody inside.
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(0),
            os: PhantomData,
        }
    }

    /// Waits until `next` gives the state to go on with, and goes on.
    fn wait(&self, next: impl Fn(u32) -> Option<u32>) -> Taking {
        let mut spins = 0;
        let mut taking = Taking::AtOnce;
        let mut state = self.state.load(Relaxed);
        loop {
            let change = |to| {
                self.state
                    .compare_exchange_weak(state, to, Acquire, Relaxed)
            };
            if let Some(next) = next(state) {
                match change(next) {
                    Ok(_) => return taking,
                    Err(now) => state = now,
                }
                continue;
            }
            taking = Taking::Waited;
            if spins < O::SPINS {
                spins += 1;
                core::hint::spin_loop();
                state = self.state.load(Relaxed);
                continue;
            }
            let sleeping = state | SLEEPERS;
            if state == sleeping || change(sleeping).is_ok() {
                O::wait_on(&self.state, sleeping, None);
            }
            state = self.state.load(Relaxed);
        }
    }

    /// Whether somebody holds it closed, at this moment.
    pub fn is_closed(&self) -> bool {
        self.state.load(Relaxed) & CLOSED != 0
    }

    /// Whether somebody is inside, at this moment.
    pub fn is_entered(&self) -> bool {
        self.state.load(Relaxed) & INSIDE != 0
    }

    /// Goes inside.
    pub fn enter(&self) -> Inside<'_, O> {
        assert_no_signal_comes::<O>();
        lock::take::<FutexLock<O>>(ranks::GATE);
        O::step();
        let asked_ns = trace::asked();
        let taking = self.wait(|s| (s & CLOSED == 0).then_some(s + 1));
        self.inside(trace::INSIDE, asked_ns, taking)
    }

    /// Goes inside once nobody waits to close the gate.
    pub fn enter_in_turn(&self) -> Inside<'_, O> {
        assert_no_signal_comes::<O>();
        lock::take::<FutexLock<O>>(ranks::GATE);
        O::step();
        let may = |s| s & (CLOSED | CLOSERS) == 0;
        let asked_ns = trace::asked();
        let taking = self.wait(|s| may(s).then_some(s + 1));
        self.inside(trace::INSIDE_IN_TURN, asked_ns, taking)
    }

    fn inside(&self, way: usize, asked_ns: u64, taking: Taking) -> Inside<'_, O> {
        debug_assert!(
            self.state.load(Relaxed) & CLOSED == 0,
            "somebody is inside a closed gate"
        );
        let since_ns = match asked_ns {
            0 => 0,
            _ => trace::note(way, asked_ns, taking),
        };
        Inside {
            gate: self,
            way,
            since_ns,
        }
    }

    /// Waits until nobody is inside and holds the gate closed.
    pub fn close(&self) -> Closed<'_, O> {
        assert_no_signal_comes::<O>();
        lock::take::<FutexLock<O>>(ranks::GATE);
        O::step();
        let asked_ns = trace::asked();
        let taking = self.shut();
        debug_assert!(
            self.state.load(Relaxed) & (CLOSED | INSIDE) == CLOSED,
            "the gate is closed with nobody inside"
        );
        let since_ns = match asked_ns {
            0 => 0,
            _ => trace::note(trace::CLOSED, asked_ns, taking),
        };
        Closed {
            gate: self,
            since_ns,
        }
    }

    /// Closes it.
    fn shut(&self) -> Taking {
        let may = |s| s & (CLOSED | INSIDE) == 0;
        let mut state = self.state.load(Relaxed);
        for spins in 0..O::SPINS {
            if may(state) {
                match self
                    .state
                    .compare_exchange_weak(state, state | CLOSED, Acquire, Relaxed)
                {
                    Ok(_) => return Taking::after(spins),
                    Err(now) => state = now,
                }
                continue;
            }
            core::hint::spin_loop();
            state = self.state.load(Relaxed);
        }
        let room = |s: u32| (s & CLOSERS != CLOSERS).then_some(s + CLOSER);
        let counted = self.state.fetch_update(Relaxed, Relaxed, room).is_ok();
        let own = if counted { CLOSER } else { 0 };
        self.wait(|s| may(s).then(|| (s - own) | CLOSED));
        Taking::Waited
    }

    /// Opens the gate by force: for the child of a fork.
    pub fn reset(&self) {
        self.state.store(0, Relaxed);
    }

    fn leave(&self, take: u32) {
        let before = self.state.fetch_sub(take, Release);
        debug_assert!(
            match take {
                CLOSED => before & (CLOSED | INSIDE) == CLOSED,
                _ => before & CLOSED == 0 && before & INSIDE >= take,
            },
            "who leaves the gate was there: {before:#x} less {take:#x}"
        );
        lock::give::<FutexLock<O>>(ranks::GATE);
        let after = before - take;
        if after & (CLOSED | INSIDE) == 0 && after & SLEEPERS != 0 {
            let woken = self.state.fetch_and(!SLEEPERS, Relaxed);
            if woken & SLEEPERS != 0 {
                O::wake(&self.state, i32::MAX as u32);
            }
        }
    }
}

/// Being inside a [`Gate`].
#[derive(Debug)]
pub struct Inside<'a, O: Os = Linux> {
    gate: &'a Gate<O>,
    way: usize,
    /// Since when, where that is traced; 0 otherwise.
    since_ns: u64,
}

impl<O: Os> Drop for Inside<'_, O> {
    fn drop(&mut self) {
        self.gate.leave(1);
        if self.since_ns != 0 {
            trace::held(self.way, self.since_ns);
        }
    }
}

/// Holding a [`Gate`] closed.
#[derive(Debug)]
pub struct Closed<'a, O: Os = Linux> {
    gate: &'a Gate<O>,
    /// Since when, where that is traced; 0 otherwise.
    since_ns: u64,
}

impl<O: Os> Drop for Closed<'_, O> {
    fn drop(&mut self) {
        self.gate.leave(CLOSED);
        if self.since_ns != 0 {
            trace::held(trace::CLOSED, self.since_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn a_closed_gate_has_nobody_inside() {
        let gate = Gate::<Linux>::new();
        let (inside, closed) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for n in 0..4 {
                let (gate, inside, closed) = (&gate, &inside, &closed);
                scope.spawn(move || {
                    for _ in 0..100_000 {
                        if n < 2 {
                            let _g = match n {
                                0 => gate.enter(),
                                _ => gate.enter_in_turn(),
                            };
                            inside.fetch_add(1, Relaxed);
                            assert_eq!(closed.load(Relaxed), 0);
                            inside.fetch_sub(1, Relaxed);
                        } else {
                            let _g = gate.close();
                            assert_eq!(closed.fetch_add(1, Relaxed), 0);
                            assert_eq!(inside.load(Relaxed), 0);
                            closed.fetch_sub(1, Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(gate.state.load(Relaxed) & !SLEEPERS, 0);
    }

    /// Two threads that go inside again and again, each before the other has left: the gate was
    /// never free, and who wanted to close it waited until they were through.
    #[test]
    fn a_gate_that_is_never_free_can_be_closed() {
        let gate = Gate::<Linux>::new();
        let (turns, done) = (AtomicU64::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while done.load(Relaxed) == 0 {
                        let _inside = gate.enter_in_turn();
                        let turn = turns.fetch_add(1, Relaxed);
                        // Until the other one is inside as well, or cannot be.
                        while turns.load(Relaxed) == turn + 1
                            && done.load(Relaxed) == 0
                            && gate.state.load(Relaxed) & CLOSERS == 0
                        {
                            core::hint::spin_loop();
                        }
                    }
                });
            }
            let (sender, closed) = std::sync::mpsc::channel();
            let (gate, done) = (&gate, &done);
            scope.spawn(move || {
                for _ in 0..100 {
                    drop(gate.close());
                }
                let _ = sender.send(());
            });
            let closed = closed.recv_timeout(std::time::Duration::from_secs(20));
            done.store(1, Relaxed);
            closed.expect("the gate could not be closed");
        });
        assert_eq!(gate.state.load(Relaxed) & !SLEEPERS, 0);
    }

    #[test]
    fn the_mutex_excludes() {
        let lock = lock_api::Mutex::<FutexLock, u64>::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100_000 {
                        *lock.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 400_000);
    }
}
