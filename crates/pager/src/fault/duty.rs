//! Which handlers look for faults.
//!
//! The kernel wakes every thread that polls the userfaultfd for each fault, and a fault is answered soonest, and for
//! the least processor time, by a handler on the processor of the faulting thread. So only handlers on whose processor
//! threads fault look for messages: they are *on duty*. The others are *parked*: each sleeps on a futex of its own.
//!
//! ```text
//!             a fault of a thread on its processor, read by another handler: called
//!             or nobody has answered anything for a while
//!           ┌──────────────────────────────────────────────────────────────────────┐
//!        parked                                                                 on duty
//!           └──────────────────────────────────────────────────────────────────────┘
//!             PATIENCE wakes in a row for faults on other processors, and it is not the last on duty
//! ```
//!
//! Where a faulting thread is, the kernel is asked now and then (`LOOK_AGAIN`), after a fault has been answered: then
//! the thread is awake again, so the answer is where its next fault will be.
//!
//! The kernel does not tell which thread caused a change of the address space. So all handlers are called now and then
//! while there are changes, and no faults that say where the program is (`CALL_ALL`): the handler on the processor where
//! they are caused reads them first, and the others park again.
//!
//! A handler on duty may not get its processor for long (a real-time thread has it, and the program has moved away from
//! there). So a parked handler looks every few milliseconds whether anything has been answered since; if not it is on duty
//! again, finds what nobody has read, or polls: a pager in which nothing happens has no timers.
//!
//! * D1: once there are handlers, at least one is on duty: `Duty::park` refuses the last. And one that cannot run is
//!   replaced after `REST_NS`.
//! * D2: an unread message is found by a handler on duty: it polls only after it has read that there is none, and polling
//!   returns at once where one has come since.
//! * D3: a call to a parked handler is not lost: the bit of the handler is set first, then its word changes, then it is
//!   woken; it reads its word, then its bit, then sleeps while the word is what it read. A call to one that is about to park
//!   finds its bit set and does nothing: that one sees what it was called for after `REST_NS`.

use crate::machine::os::Os;
use crate::settings::config::MAX_HANDLERS;
use core::marker::PhantomData;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Wakes in a row for what happened on other processors, after which a handler parks.
const PATIENCE: u32 = 8;

/// Faults of a thread between two questions where it is: as many as the first number after it has moved, twice as many
/// after each answer that is what it was, up to the second. A question is three system calls, some 4 µs.
const LOOK_AGAIN: (u32, u32) = (8, 64);

/// Changes in a row, no fault near the handler between them, that it reads between two calls of all others: as many as the first number when it has just come, twice
/// as many each time, up to the second.
const CALL_ALL: (u32, u32) = (8, 256);

/// How long a parked handler waits for another to answer something. Each further one that is parked waits so much longer:
/// of many, few look.
const REST_NS: u64 = 4_000_000;

/// Threads whose place a handler remembers.
const REMEMBERED: usize = 16;

/// So many faults between two batches of reclaim make it worth going where they happen: going and coming back costs about
/// as much as two of them.
const WORTH_A_VISIT: u64 = 32;

/// The processor of a handler that is not pinned, or not there.
const ANYWHERE: u32 = u32::MAX;

/// The handlers on duty, and those that are parked.
pub struct Duty<O: Os> {
    /// A bit for each handler on duty.
    on: AtomicU64,
    /// What a parked handler sleeps on: changes with every call.
    calls: [AtomicU32; MAX_HANDLERS],
    /// The processor that each handler is pinned to.
    processors: [AtomicU32; MAX_HANDLERS],
    /// How many faults there had been when reclaim last asked where they are.
    faults_seen: AtomicU64,
    os: PhantomData<fn() -> O>,
}

/// What one handler knows of where threads fault.
pub(crate) struct Sightings {
    number: usize,
    threads: [Sighting; REMEMBERED],
    /// Wakes in a row for what happened elsewhere.
    elsewhere: u32,
    /// Changes until all others are called, and how many were between the last two times.
    changes_left: u32,
    changes_between: u32,
}

#[derive(Clone, Copy)]
struct Sighting {
    thread: u32,
    /// Faults until it is looked for again, and how many were between the last two looks.
    left: u32,
    interval: u32,
    /// Whether another handler is nearer to it.
    elsewhere: bool,
}

impl Sightings {
    pub(crate) fn new(number: usize) -> Self {
        const NOBODY: Sighting = Sighting {
            thread: 0,
            left: 0,
            interval: 0,
            elsewhere: false,
        };
        Self {
            number,
            threads: [NOBODY; REMEMBERED],
            elsewhere: 0,
            changes_left: CALL_ALL.0,
            changes_between: CALL_ALL.0,
        }
    }

    /// It was woken, and another handler had read the message.
    pub(crate) fn came_in_vain(&mut self) {
        self.elsewhere += 1;
    }
}

impl<O: Os> Default for Duty<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Duty<O> {
    /// There are no handlers.
    pub const fn new() -> Self {
        Self {
            on: AtomicU64::new(0),
            calls: [const { AtomicU32::new(0) }; MAX_HANDLERS],
            processors: [const { AtomicU32::new(ANYWHERE) }; MAX_HANDLERS],
            faults_seen: AtomicU64::new(0),
            os: PhantomData,
        }
    }

    /// There are no handlers: at each start, and in the child of a fork.
    pub(crate) fn reset(&self) {
        self.on.store(0, Relaxed);
        for processor in &self.processors {
            processor.store(ANYWHERE, Relaxed);
        }
    }

    /// A handler has come, pinned to `processor` if that is said. It is on duty.
    pub fn begins(&self, number: usize, processor: Option<u32>) {
        self.processors[number].store(processor.unwrap_or(ANYWHERE), Relaxed);
        self.call(number);
    }

    /// How many handlers are on duty.
    pub fn count(&self) -> u32 {
        self.on.load(Relaxed).count_ones()
    }

    /// The processor on which all faults happen, where that is one and there have been many since the last question:
    /// `faults` so far. Pages are best taken there: unmapping them interrupts each processor that runs the program, and waits
    /// for its answer.
    pub(crate) fn worth_a_visit(&self, faults: u64) -> Option<u32> {
        let since = faults.saturating_sub(self.faults_seen.swap(faults, Relaxed));
        let on = self.on.load(Relaxed);
        if since < WORTH_A_VISIT || on.count_ones() != 1 {
            return None;
        }
        let processor = self.processors[on.trailing_zeros() as usize].load(Relaxed);
        (processor != ANYWHERE).then_some(processor)
    }

    /// Calls a handler, if it is parked; whether it was.
    fn call(&self, number: usize) -> bool {
        let bit = 1 << number;
        let parked = self.on.fetch_or(bit, AcqRel) & bit == 0;
        if parked {
            let word = &self.calls[number];
            word.fetch_add(1, Release);
            O::wake(word, 1);
        }
        parked
    }

    /// Calls all of `count` handlers: they shall see that something has changed. Whether any was parked.
    pub(crate) fn call_all(&self, count: usize) -> bool {
        (0..count).filter(|&number| self.call(number)).count() > 0
    }

    /// The handler that is pinned to a processor.
    fn handler_on(&self, processor: u32) -> Option<usize> {
        self.processors
            .iter()
            .position(|own| own.load(Relaxed) == processor)
    }

    /// A fault of `thread` was answered by the handler whose `sightings` these are. Whether a handler was called.
    pub(crate) fn answered(&self, sightings: &mut Sightings, thread: u32) -> bool {
        let mut called = false;
        let known = &mut sightings.threads[thread as usize % REMEMBERED];
        if known.thread != thread || known.left == 0 {
            let nearest = match self.processors[sightings.number].load(Relaxed) {
                ANYWHERE => None,
                _ => O::processor_of(thread).and_then(|processor| self.handler_on(processor)),
            };
            let other = nearest.filter(|&nearest| nearest != sightings.number);
            let (least, most) = LOOK_AGAIN;
            let stays = known.thread == thread && known.elsewhere == other.is_some();
            let interval = match stays {
                true => most.min(2 * known.interval),
                false => least,
            };
            *known = Sighting {
                thread,
                left: interval,
                interval,
                elsewhere: other.is_some(),
            };
            called = other.is_some_and(|other| self.call(other));
        }
        known.left -= 1;
        match known.elsewhere {
            true => sightings.elsewhere += 1,
            false => {
                sightings.elsewhere = 0;
                sightings.changes_left = sightings.changes_between;
            }
        }
        called
    }

    /// A change was read by the handler whose `sightings` these are, one of `count`. Whether handlers were called.
    pub(crate) fn changed(&self, sightings: &mut Sightings, count: usize) -> bool {
        sightings.elsewhere = 0;
        sightings.changes_left -= 1;
        if sightings.changes_left > 0 {
            return false;
        }
        sightings.changes_between = CALL_ALL.1.min(2 * sightings.changes_between);
        sightings.changes_left = sightings.changes_between;
        self.call_all(count)
    }

    /// Before a handler polls: parks it, until it is called, if it was woken for other processors only. `messages`: how
    /// many were read so far, by whomever.
    pub(crate) fn park_if_in_vain(&self, sightings: &mut Sightings, messages: impl Fn() -> u64) {
        if sightings.elsewhere >= PATIENCE {
            self.park(sightings.number, messages);
            *sightings = Sightings::new(sightings.number);
        }
    }

    fn park(&self, number: usize, messages: impl Fn() -> u64) {
        let bit = 1u64 << number;
        let without = |on: u64| (on & !bit != 0).then_some(on & !bit);
        let Ok(before) = self.on.fetch_update(AcqRel, Acquire, without) else {
            return;
        };
        let parked_below = ((bit - 1) & !before).count_ones();
        let rest_ns = REST_NS * u64::from(1 + parked_below);
        let word = &self.calls[number];
        let mut read = messages();
        loop {
            let seen = word.load(Acquire);
            if self.on.load(Acquire) & bit != 0 {
                return;
            }
            O::wait_on(word, seen, Some(rest_ns));
            let now = messages();
            if now == core::mem::replace(&mut read, now) {
                self.on.fetch_or(bit, AcqRel);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::machine::linux::Linux;
    use coldpress_linux::sys;
    use std::thread;
    use std::time::{Duration, Instant};

    fn two() -> Duty<Linux> {
        let duty = Duty::new();
        duty.begins(0, Some(1_000));
        duty.begins(1, Some(1_001));
        duty
    }

    /// Somebody answers all the time.
    fn busy() -> impl Fn() -> u64 {
        let messages = AtomicU64::new(0);
        move || messages.fetch_add(1, Relaxed)
    }

    fn until(what: impl Fn() -> bool) {
        let began = Instant::now();
        while !what() {
            assert!(began.elapsed() < Duration::from_secs(20), "in vain");
            thread::yield_now();
        }
    }

    #[test]
    fn the_last_on_duty_stays() {
        let duty = Duty::<Linux>::new();
        duty.begins(5, None);
        duty.park(5, busy());
        assert_eq!(duty.count(), 1);
    }

    #[test]
    fn a_parked_handler_sleeps_until_it_is_called() {
        let duty = two();
        thread::scope(|scope| {
            for _ in 0..1_000 {
                let parked = scope.spawn(|| duty.park(1, busy()));
                until(|| duty.count() == 1);
                assert!(duty.call(1));
                parked.join().unwrap();
                assert_eq!(duty.count(), 2);
            }
        });
    }

    /// The handler on duty does not get its processor.
    #[test]
    fn a_parked_handler_comes_back_where_nobody_answers() {
        let duty = two();
        duty.park(1, || 7);
        assert_eq!(duty.count(), 2);
    }

    /// A thread on the processor of handler 1, whose faults handler 0 reads.
    #[test]
    fn the_handler_where_a_thread_faults_takes_over() {
        let here = sys::thread_id();
        let processor = Linux::processor_of(here).expect("asked for itself");
        sys::pin(here, processor);
        let duty = Duty::<Linux>::new();
        duty.begins(0, Some(1_000));
        duty.begins(1, Some(processor));
        let mut sightings = [Sightings::new(0), Sightings::new(1)];
        thread::scope(|scope| {
            let parked = scope.spawn(|| duty.park(1, busy()));
            until(|| duty.count() == 1);
            let [far, near] = &mut sightings;
            assert!(duty.answered(far, here));
            parked.join().unwrap();
            for _ in 1..PATIENCE {
                assert!(!duty.answered(far, here), "it is on duty already");
            }
            for _ in 0..1_000 {
                assert!(!duty.answered(near, here));
                duty.park_if_in_vain(near, busy());
            }
            let parked = scope.spawn(|| duty.park_if_in_vain(far, busy()));
            until(|| duty.count() == 1);
            assert!(duty.call_all(2));
            parked.join().unwrap();
        });
    }

    /// Reclaim goes where all faults are, if they are many and that is one processor.
    #[test]
    fn reclaim_visits_the_only_processor_where_threads_fault() {
        let duty = two();
        assert_eq!(duty.worth_a_visit(1_000), None, "two are on duty");
        duty.on.store(0b10, Relaxed);
        assert_eq!(duty.worth_a_visit(1_000 + WORTH_A_VISIT), Some(1_001));
        let few = 1_000 + 2 * WORTH_A_VISIT - 1;
        assert_eq!(duty.worth_a_visit(few), None, "not many since");
        assert_eq!(duty.worth_a_visit(few + WORTH_A_VISIT), Some(1_001));
        duty.processors[1].store(ANYWHERE, Relaxed);
        assert_eq!(duty.worth_a_visit(10_000), None, "it is pinned nowhere");
        duty.reset();
        assert_eq!(duty.worth_a_visit(20_000), None, "nobody is on duty");
    }

    /// Nobody says who causes changes: all are called, ever more seldom.
    #[test]
    fn changes_call_everybody_now_and_then() {
        let duty = two();
        let mut sightings = Sightings::new(0);
        let mut called = 0;
        thread::scope(|scope| {
            for _ in 0..1_000 {
                if duty.count() == 2 {
                    scope.spawn(|| duty.park(1, busy()));
                    until(|| duty.count() == 1);
                }
                called += u32::from(duty.changed(&mut sightings, 2));
            }
            duty.call_all(2);
        });
        assert_eq!(called, 7, "after 8, 24, 56, 120, 248, 504 and 760");
    }

    #[test]
    fn the_kernel_tells_where_a_thread_is() {
        let here = sys::thread_id();
        for processor in sys::processors(0).unwrap().iter() {
            sys::pin(here, processor);
            assert_eq!(Linux::processor_of(here), Some(processor));
        }
        assert_eq!(Linux::processor_of(u32::MAX), None);
    }
}
