//! Threads of the simulation: coroutines on one thread of the system, of which the scheduler lets
//! one go on at every step.
//!
//! ```text
//!  run ──resume──▶ thread 3 … step() ──suspend──▶ run ──resume──▶ thread 7 …
//!                  │                    whom the strategy names
//!                  └ everything between two steps happens at once
//! ```
//!
//! A *step* is what a thread does between two calls of [`step`]: each call of the machine by the
//! engine, each lock taken or given back, each wait, each access of a program to its memory. All
//! choices come from one generator, so a seed says everything that happens.
//!
//! A thread can [`block`] on a key until somebody [`wake`]s the key or, if it says so, some steps
//! have passed. If no thread can go on, the sleeper whose time comes next is woken; if there is
//! none, that is a deadlock, and the run fails.

use crate::inject::{Injections, Kind};
use crate::random::Random;
use crate::strategy::Strategy;
use crate::trace::{Event, Trace, What};
use coldpress_engine::{PageIndex, SegmentId};
use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::sync::atomic::AtomicU32;

/// The most threads.
pub const MAX_THREADS: usize = 40;

/// Who is not a simulated thread: preparation and the final check.
pub const NOBODY: usize = MAX_THREADS;

const STACK_BYTES: usize = 512 << 10;

/// A thread that runs for so many steps without ending what it does is stuck.
const STUCK_STEPS: u64 = 1_000_000;

struct Thread {
    name: Cell<&'static str>,
    yielder: Cell<*const Yielder<(), ()>>,
    /// What it waits for, if it is not ready.
    key: Cell<u64>,
    /// When it goes on all the same, if its bit in `timed` is set.
    until: Cell<u64>,
    timed_out: Cell<bool>,
    priority: Cell<i64>,
    /// When it began what it does.
    since: Cell<u64>,
}

/// What a thread is made of.
pub type Body = Box<dyn FnOnce()>;

/// One run: threads, random numbers, trace and injections. While it [runs](Simulation::run) it is
/// the current simulation of the system's thread, which the functions of this module act on.
pub struct Simulation {
    /// Where every choice comes from.
    pub random: Random,
    /// What happened.
    pub trace: Trace,
    /// What goes wrong.
    pub injections: Injections,
    steps: Cell<u64>,
    end: u64,
    stopping: Cell<bool>,
    current: Cell<usize>,
    alive: Cell<u64>,
    ready: Cell<u64>,
    timed: Cell<u64>,
    next_timer: Cell<u64>,
    strategy: Cell<Strategy>,
    epoch_end: Cell<u64>,
    quantum: Cell<u32>,
    lowest: Cell<i64>,
    threads: Vec<Thread>,
}

thread_local! {
    static CURRENT: Cell<*const Simulation> = const { Cell::new(null()) };
    /// A word for each thread, and one for who is none: the ranks it holds. Leaked, since a
    /// thread's word must outlive every lock.
    static HELD: &'static [AtomicU32; MAX_THREADS + 1] =
        Box::leak(Box::new([const { AtomicU32::new(0) }; MAX_THREADS + 1]));
}

/// The simulation that the caller is part of.
pub fn simulation() -> &'static Simulation {
    let current = CURRENT.get();
    assert!(!current.is_null(), "outside of a simulation");
    // SAFETY: set by `Simulation::enter` to what lives until it is set back; nothing keeps the
    // reference beyond the simulation.
    unsafe { &*current }
}

/// Ranks of locks held by the calling thread.
pub fn held() -> &'static AtomicU32 {
    &HELD.with(|held| *held)[simulation().current.get()]
}

/// The calling thread does something: others may go first.
#[inline]
pub fn step(what: What, segment: SegmentId, index: PageIndex, detail: u32) {
    simulation().step(what, segment, index, detail);
}

/// Waits for `wake(key)`, or for `steps` steps. Whether it was woken.
pub fn block(key: u64, steps: Option<u64>) -> bool {
    simulation().block(key, steps)
}

/// Lets all go on who wait for this key.
pub fn wake(key: u64) {
    let simulation = simulation();
    simulation.rouse(simulation.who_waits(key));
}

/// Whether something of this kind goes wrong now.
#[inline]
pub fn fires(kind: Kind) -> bool {
    let simulation = simulation();
    simulation.injections.fires(&simulation.random, kind)
}

/// Something of this kind has gone wrong.
pub fn note(kind: Kind) {
    simulation().injections.note(kind);
}

/// Random numbers of the current simulation.
pub fn random() -> &'static Random {
    &simulation().random
}

/// Does nothing for up to `steps` steps.
pub fn doze(steps: u64) {
    block(0, Some(1 + random().below(steps.max(1))));
}

/// Sets the current simulation back.
pub struct Entered(*const Simulation);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Runs what is no thread; a panic is what was found.
pub fn caught(act: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let result = catch_unwind(AssertUnwindSafe(act));
    result.unwrap_or_else(|panic| Err(words_of(&*panic)))
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

impl Simulation {
    /// A run of `steps` steps that follow from `seed`.
    pub fn new(seed: u64, steps: u64) -> Self {
        let thread = |_| Thread {
            name: Cell::new(""),
            yielder: Cell::new(null()),
            key: Cell::new(0),
            until: Cell::new(0),
            timed_out: Cell::new(false),
            priority: Cell::new(0),
            since: Cell::new(0),
        };
        Self {
            random: Random::new(seed),
            trace: Trace::new(),
            injections: Injections::new(),
            steps: Cell::new(0),
            end: steps,
            stopping: Cell::new(false),
            current: Cell::new(NOBODY),
            alive: Cell::new(0),
            ready: Cell::new(0),
            timed: Cell::new(0),
            next_timer: Cell::new(u64::MAX),
            strategy: Cell::new(Strategy::Uniform),
            epoch_end: Cell::new(0),
            quantum: Cell::new(0),
            lowest: Cell::new(0),
            threads: (0..=MAX_THREADS).map(thread).collect(),
        }
    }

    /// Makes it the current simulation until the guard is dropped.
    ///
    /// # Safety
    /// It outlives the guard.
    pub unsafe fn enter(&self) -> Entered {
        for held in HELD.with(|held| *held) {
            held.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        Entered(CURRENT.replace(self))
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Whether threads shall come to an end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// The thread that runs, or [`NOBODY`].
    pub fn current(&self) -> usize {
        self.current.get()
    }

    /// Its name.
    pub fn current_name(&self) -> &'static str {
        self.threads[self.current.get()].name.get()
    }

    /// The running thread has ended one thing and begins another.
    pub fn begins_anew(&self) {
        self.threads[self.current.get()].since.set(self.steps.get());
    }

    fn step(&self, what: What, segment: SegmentId, index: PageIndex, detail: u32) {
        let current = self.current.get();
        if current == NOBODY {
            return;
        }
        self.count(current, what, segment, index, detail);
        let next = self.choose(current);
        self.go_to(current, next);
    }

    #[inline]
    fn count(&self, thread: usize, what: What, segment: SegmentId, index: PageIndex, detail: u32) {
        let step = self.steps.get() + 1;
        self.steps.set(step);
        self.trace.note(Event {
            step,
            segment,
            index,
            detail,
            thread: thread as u8,
            what,
        });
        self.keep_time(step);
        if step - self.threads[thread].since.get() > STUCK_STEPS {
            panic!(
                "thread {thread} ({}) gets nowhere; {}",
                self.current_name(),
                self.sleepers()
            );
        }
    }

    /// Wakes whose time has come, opens epochs, ends the run.
    fn keep_time(&self, step: u64) {
        if step >= self.next_timer.get() {
            let (mut left, mut next) = (self.timed.get(), u64::MAX);
            while left != 0 {
                let n = left.trailing_zeros() as usize;
                left &= left - 1;
                let until = self.threads[n].until.get();
                match until <= step {
                    true => self.time_out(n),
                    false => next = next.min(until),
                }
            }
            self.next_timer.set(next);
        }
        if step >= self.epoch_end.get() {
            let (strategy, steps) = Strategy::draw(&self.random);
            self.strategy.set(strategy);
            self.epoch_end.set(step + steps);
            for thread in &self.threads {
                thread.priority.set(self.random.below(1 << 20) as i64);
            }
            self.lowest.set(0);
        }
        if step >= self.end {
            self.stopping.set(true);
        }
    }

    fn time_out(&self, n: usize) {
        self.threads[n].timed_out.set(true);
        self.timed.set(self.timed.get() & !(1 << n));
        self.ready.set(self.ready.get() | 1 << n);
    }

    /// The thread that goes next, among those that are ready.
    fn choose(&self, current: usize) -> usize {
        let ready = self.ready.get();
        if ready & (ready - 1) == 0 {
            return ready.trailing_zeros() as usize;
        }
        let is_ready = ready & 1 << current != 0;
        match self.strategy.get() {
            Strategy::Sticky(n) if is_ready && !self.random.one_in(n) => current,
            Strategy::Uniform | Strategy::Sticky(_) => self.any_of(ready),
            Strategy::Priorities(n) => {
                if self.random.one_in(n) {
                    self.fall_behind(current);
                }
                let mut left = ready;
                let mut best = (i64::MIN, current);
                while left != 0 {
                    let n = left.trailing_zeros() as usize;
                    left &= left - 1;
                    best = best.max((self.threads[n].priority.get(), n));
                }
                best.1
            }
            Strategy::RoundRobin(n) => {
                let quantum = self.quantum.get();
                if is_ready && quantum < n {
                    self.quantum.set(quantum + 1);
                    return current;
                }
                self.quantum.set(0);
                let later = ready & !(u64::MAX >> (63 - current));
                (if later != 0 { later } else { ready }).trailing_zeros() as usize
            }
        }
    }

    fn any_of(&self, ready: u64) -> usize {
        let mut left = ready;
        for _ in 0..self.random.below(u64::from(ready.count_ones())) {
            left &= left - 1;
        }
        left.trailing_zeros() as usize
    }

    /// Every other thread goes before this one, where priorities count.
    fn fall_behind(&self, thread: usize) {
        self.lowest.set(self.lowest.get() - 1);
        self.threads[thread].priority.set(self.lowest.get());
    }

    fn go_to(&self, current: usize, next: usize) {
        if next == current || std::thread::panicking() {
            return;
        }
        self.current.set(next);
        // SAFETY: the running thread's own yielder, which lives as long as its coroutine.
        unsafe { (*self.threads[current].yielder.get()).suspend(()) };
    }

    fn block(&self, key: u64, steps: Option<u64>) -> bool {
        let current = self.current.get();
        if current == NOBODY || std::thread::panicking() {
            assert!(std::thread::panicking(), "nobody else can help");
            return true;
        }
        self.count(current, What::Wait, 0, 0, 0);
        let step = self.steps.get();
        let thread = &self.threads[current];
        thread.key.set(key);
        thread.timed_out.set(false);
        self.ready.set(self.ready.get() & !(1 << current));
        if let Some(steps) = steps {
            thread.until.set(step + steps);
            self.timed.set(self.timed.get() | 1 << current);
            self.next_timer.set(self.next_timer.get().min(step + steps));
        }
        self.fall_behind(current);
        if self.ready.get() == 0 {
            self.hurry();
        }
        let next = self.choose(current);
        self.go_to(current, next);
        !thread.timed_out.get()
    }

    /// Nobody can go on: wakes the sleeper whose time comes next.
    fn hurry(&self) {
        let mut left = self.timed.get();
        assert!(left != 0, "deadlock: {}", self.sleepers());
        let mut first = (u64::MAX, NOBODY);
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            first = first.min((self.threads[n].until.get(), n));
        }
        self.time_out(first.1);
    }

    /// The threads that sleep, and on what.
    pub fn sleepers(&self) -> String {
        let asleep = self.alive.get() & !self.ready.get();
        let of = |n: usize| {
            let thread = &self.threads[n];
            format!(
                "{} {n} waits for {:#x}; ",
                thread.name.get(),
                thread.key.get()
            )
        };
        (0..MAX_THREADS)
            .filter(|n| asleep & 1 << n != 0)
            .map(of)
            .collect()
    }

    /// Who waits for the key, a bit each.
    pub fn who_waits(&self, key: u64) -> u64 {
        let mut left = self.alive.get() & !self.ready.get();
        let mut waiting = 0;
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.threads[n].key.get() == key {
                waiting |= 1 << n;
            }
        }
        waiting
    }

    /// Wakes some who sleep.
    pub fn rouse(&self, whom: u64) {
        let whom = whom & self.alive.get();
        self.ready.set(self.ready.get() | whom);
        self.timed.set(self.timed.get() & !whom);
    }

    /// Runs the threads until all have ended.
    ///
    /// # Errors
    /// What a thread that panicked said. No thread can be run any more then.
    pub fn run(&self, bodies: Vec<(&'static str, Body)>) -> Result<(), String> {
        assert!(bodies.len() <= MAX_THREADS);
        let mut threads: Vec<Option<Coroutine<(), (), ()>>> = Vec::new();
        for (n, (name, body)) in bodies.into_iter().enumerate() {
            self.threads[n].name.set(name);
            let at: *const Thread = &raw const self.threads[n];
            let stack = DefaultStack::new(STACK_BYTES).expect("memory for a stack");
            threads.push(Some(Coroutine::with_stack(stack, move |yielder, ()| {
                // SAFETY: the simulation outlives its threads.
                unsafe { (*at).yielder.set(yielder) };
                body();
            })));
            self.alive.set(self.alive.get() | 1 << n);
        }
        self.ready.set(self.alive.get());
        self.current.set(self.any_of(self.ready.get()));
        loop {
            let n = self.current.get();
            let thread = threads[n].as_mut().expect("it has not ended");
            match catch_unwind(AssertUnwindSafe(|| thread.resume(()))) {
                Ok(CoroutineResult::Yield(())) => {}
                Ok(CoroutineResult::Return(())) => {
                    threads[n] = None;
                    self.threads[n].name.set("");
                    self.alive.set(self.alive.get() & !(1 << n));
                    self.ready.set(self.ready.get() & !(1 << n));
                    if threads.iter().all(Option::is_none) {
                        self.current.set(NOBODY);
                        return Ok(());
                    }
                    if self.ready.get() == 0 {
                        self.hurry();
                    }
                    self.current.set(self.any_of(self.ready.get()));
                }
                Err(panic) => {
                    // What the others are in the middle of cannot be undone.
                    std::mem::forget(threads);
                    let name = self.current_name();
                    self.current.set(NOBODY);
                    return Err(format!("{name}: {}", words_of(&*panic)));
                }
            }
        }
    }
}
