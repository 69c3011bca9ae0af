//! Fault handlers: one thread pinned to each processor, all reading one userfaultfd.
//!
//! The handler that runs where the fault happened answers it: waking a thread on another
//! processor costs some 70 µs in a virtual machine, a hand-over on the same one 4. Handlers on
//! whose processor nobody faults are parked ([`duty`](crate::fault::duty)).
//!
//! A message is read with the gate closed (see `host`). An event is acted on before the gate
//! opens again. A fault is answered after; while its handler cannot go on because the address
//! space is changing, it reads on itself (`read_changes`): events it applies, faults it defers.
//!
//! Once whoever waited is awake (or just before, see `read_ahead_first` among the tunables) the handler may
//! restore neighbours, until the next message waits.
//!
//! Nothing here allocates, calls libc, or touches memory that could be missing.

use crate::fault::deferred::Fault;
use crate::fault::duty::Sightings;
use crate::machine::fault_trace::{self, Answering, Record, Stages};
use crate::machine::futex::wait_while;
use crate::machine::os::{Os, Userfaults};
use crate::machine::run_file;
use crate::settings::watermarks::Watermarks;
use crate::{Codec, Pager};
use coldpress_engine::{Access, Expected, FaultOutcome, PageIndex, SegmentId, Worker};
use coldpress_uffd::{AddressRange, Errno, Message, PAGE_SIZE};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// What a handler is doing, for the watchdog and for fork.
pub struct HandlerState {
    /// Set while a message is being dealt with.
    pub busy: AtomicBool,
    /// Page of the fault.
    pub address: AtomicUsize,
    /// Thread that waits.
    pub thread: AtomicU32,
    /// When it was read; 0: no fault.
    pub since_ns: AtomicU64,
    /// Time that threads waited for this handler's answers, ever, and the longest wait. Written by the
    /// handler alone, so that counting costs no more than two stores.
    pub waited_ns: AtomicU64,
    /// The longest.
    pub longest_ns: AtomicU64,
    /// What it reaches in answering, where faults are traced.
    pub answering: Answering,
}

impl HandlerState {
    /// Doing nothing.
    pub const fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            address: AtomicUsize::new(0),
            thread: AtomicU32::new(0),
            since_ns: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
            answering: Answering::new(),
        }
    }

    /// Takes note of a fault that was answered after this long.
    fn waited(&self, ns: u64) {
        self.waited_ns
            .store(self.waited_ns.load(Relaxed) + ns, Relaxed);
        if ns > self.longest_ns.load(Relaxed) {
            self.longest_ns.store(ns, Relaxed);
        }
    }

    /// Notes the stages of a fault that was answered, where faults are traced.
    fn trace(&self, fault: Fault, stages: Stages) {
        if let Some((decoded_ns, copied_ns)) = self.answering.take() {
            fault_trace::note(Record {
                page: fault.address,
                thread: fault.thread,
                stages,
                decoded_ns,
                copied_ns,
            });
        }
    }

    /// Nothing was waited for yet: in a new process.
    pub(crate) fn forget_waits(&self) {
        self.waited_ns.store(0, Relaxed);
        self.longest_ns.store(0, Relaxed);
    }
}

impl Default for HandlerState {
    fn default() -> Self {
        Self::new()
    }
}

/// A handler thread. Its maker has pinned and named it: what it calls itself it calls again and again (`filter`).
pub fn run<O: Os>(pager: &'static Pager<O>, number: usize) -> ! {
    // SAFETY: worker `number + 1` and its workspace belong to this thread alone.
    let mut worker = unsafe { pager.workplace.worker(number + 1) };
    let uffd = pager.host.uffd.get().expect("opened before handlers start");
    let state = &pager.handlers[number];
    let mut sightings = Sightings::new(number);
    let mut was_woken = false;
    loop {
        wait_while::<O>(&pager.fork.hold, 1);
        if pager.leaving.has_begun() {
            pager.leaving.thread_goes::<O>();
        }
        // Read first: a thread that was woken runs before its handler and faults again, so the next message is often
        // there already.
        match pager.read_one(state) {
            Got::Fault(fault, stages) => {
                pager.serve(&mut worker, state, &mut sightings, fault);
                state.trace(fault, stages);
                while let Some(fault) = pager.deferred.pop() {
                    pager.serve(&mut worker, state, &mut sightings, fault);
                    // It was read at another time, by whomever.
                    state.answering.take();
                }
                state.busy.store(false, Release);
                was_woken = false;
            }
            Got::Change => {
                let count = pager.handler_count.load(Relaxed);
                if pager.duty.changed(&mut sightings, count) {
                    pager.note_call();
                }
                was_woken = false;
            }
            Got::Nothing => {
                if was_woken {
                    sightings.came_in_vain();
                }
                let s = pager.host.statistics();
                let messages = || s.faults.load(Relaxed) + s.events.load(Relaxed);
                pager.duty.park_if_in_vain(&mut sightings, messages);
                uffd.wait(None);
                was_woken = true;
            }
        }
    }
}

/// What reading brought.
enum Got {
    Fault(Fault, Stages),
    Change,
    Nothing,
}

impl<O: Os> Pager<O> {
    /// Reads one message with the gate closed, and acts on it there if it is an event. A fault is
    /// given back, with the handler marked busy.
    fn read_one(&self, state: &HandlerState) -> Got {
        let Some(uffd) = self.host.uffd.get() else {
            return Got::Nothing;
        };
        let mut message = [Message::Unknown(0)];
        let runs_ns = fault_trace::now_ns();
        let _closed = self.host.gate.close();
        let closed_ns = fault_trace::now_ns();
        if self.fork.hold.load(Relaxed) == 1 || !matches!(uffd.read(&mut message), Ok(1)) {
            return Got::Nothing;
        }
        match message[0] {
            Message::Fault {
                address,
                access,
                thread,
            } => {
                if self.lets_populate(address, thread) {
                    return Got::Change;
                }
                state.busy.store(true, Relaxed);
                let fault = Fault {
                    address,
                    access,
                    thread,
                    read_ns: 0,
                };
                let stages = Stages {
                    runs_ns,
                    closed_ns,
                    read_ns: fault_trace::now_ns(),
                };
                Got::Fault(fault, stages)
            }
            event => {
                self.apply(event);
                Got::Change
            }
        }
    }

    /// Called by a handler in the middle of a fault that cannot go on: reads what is pending.
    pub(crate) fn read_changes(&self) {
        let Some(uffd) = self.host.uffd.get() else {
            return;
        };
        let mut message = [Message::Unknown(0)];
        loop {
            let closed = self.host.gate.close();
            match uffd.read(&mut message) {
                Ok(1) => match message[0] {
                    Message::Fault {
                        address,
                        access,
                        thread,
                    } => {
                        if self.lets_populate(address, thread) {
                            return;
                        }
                        drop(closed);
                        self.deferred.push(
                            uffd,
                            Fault {
                                address,
                                access,
                                thread,
                                read_ns: O::now_ns(),
                            },
                        );
                    }
                    event => {
                        self.apply(event);
                        return;
                    }
                },
                _ => {
                    drop(closed);
                    // The event was read; its thread has to run before the kernel lets us go on.
                    O::sleep_ns(20_000);
                    self.wake_to_see_who_populates();
                    return;
                }
            }
        }
    }

    fn serve(
        &self,
        worker: &mut Worker<Codec>,
        state: &HandlerState,
        sightings: &mut Sightings,
        fault: Fault,
    ) {
        let started = O::now_ns();
        state.address.store(fault.address, Relaxed);
        state.thread.store(fault.thread, Relaxed);
        state.since_ns.store(started, Relaxed);
        self.stall_for_the_watchdogs_test();
        self.wait_for_room();
        let Answer {
            expected,
            answered,
            zero,
        } = if self.fork.still.load(Acquire) {
            self.serve_still(worker, fault.address);
            Answer::now::<O>()
        } else {
            self.answer(worker, fault, started)
        };
        state.since_ns.store(0, Relaxed);
        let read = match fault.read_ns {
            0 => started,
            read => read,
        };
        let waited = answered.saturating_sub(read);
        state.waited(waited);
        if self.pressure.is_young.load(Relaxed) {
            run_file::young_waited(waited);
        }
        if let Some(expected) = expected {
            let engine = &self.engine;
            let goes_on = |pages| self.may_read_ahead(pages) && !self.is_waited_for();
            engine.read_ahead(self, worker, expected, goes_on);
        }
        if let Some(place) = zero {
            self.note_zero_fault(place);
        }
        self.have_frames_given_back(answered);
        if self.duty.answered(sightings, fault.thread) {
            self.note_call();
        }
    }

    fn note_call(&self) {
        self.host.statistics().handlers_called.fetch_add(1, Relaxed);
    }
}

impl<O: Os> Pager<O> {
    /// Notes when the page that a handler answers for was copied. Others are not told apart by more than their address:
    /// tracing is for measurements.
    #[cold]
    pub(crate) fn trace_copy(&self, page: usize, began_ns: u64) {
        let answers = |handler: &&HandlerState| {
            handler.busy.load(Relaxed) && handler.address.load(Relaxed) == page
        };
        let handlers = &self.handlers[..self.handler_count.load(Relaxed)];
        if let Some(handler) = handlers.iter().find(answers) {
            handler.answering.copied(began_ns);
        }
    }
}

/// How a fault was answered.
struct Answer {
    /// What should be restored now, since it will be touched next.
    expected: Option<Expected>,
    /// When it was answered.
    answered: u64,
    /// The page, if it got zeros since nothing is remembered of it.
    zero: Option<(SegmentId, PageIndex)>,
}

impl Answer {
    /// Just now, and nothing is known of it.
    fn now<O: Os>() -> Self {
        Self {
            expected: None,
            answered: O::now_ns(),
            zero: None,
        }
    }
}

/// The longest that a fault is kept waiting for neighbours, where it is at all (the engine's
/// `read_ahead_first`): a few pages' time.
const FIRST_NS: u64 = 50_000;

impl<O: Os> Pager<O> {
    /// Whether pages that nobody waits for may be restored now; counts them, as if they were. Not while anybody waits
    /// for memory, or for a fork. A young child holds the budget of its parent, nearly all of it shared, and what it reads
    /// comes back in any case: one by one that costs it a switch to its handler and back for each page.
    fn may_read_ahead(&self, pages: u32) -> bool {
        let config = self.config();
        let pressure = &self.pressure;
        let after = self.estimate_with(pages);
        let goes_on = self.fork.hold.load(Relaxed) == 0
            && self.fork.pause.load(Relaxed) == 0
            && !pressure.machine_is_short.load(Relaxed)
            && (pressure.is_young.load(Relaxed)
                || !Watermarks::in_force(&config).waits(after, &config));
        if goes_on {
            pressure.restored.fetch_add(pages.into(), Relaxed);
        }
        goes_on
    }

    /// Whether pages of the set of a program that wakes may be restored now. They are a guess about what is used next,
    /// and near the budget each would take the place of a page that is in use.
    fn may_restore_set(&self, pages: u32) -> bool {
        Watermarks::in_force(&self.config()).is_roomy(self.estimate_with(pages))
            && self.may_read_ahead(pages)
    }

    /// How much memory is held when so many pages more are in place.
    fn estimate_with(&self, pages: u32) -> u64 {
        self.pressure.estimate() + u64::from(pages) * PAGE_SIZE as u64
    }

    /// Whether anybody waits for a fault or an event that is still to be answered.
    fn is_waited_for(&self) -> bool {
        !self.deferred.is_empty() || self.host.uffd.get().is_none_or(|uffd| uffd.wait(Some(0)))
    }

    /// Answers a fault.
    fn answer(&self, worker: &mut Worker<Codec>, fault: Fault, started: u64) -> Answer {
        let statistics = self.host.statistics();
        statistics.faults.fetch_add(1, Relaxed);
        let Some(segment) = self.host.windows.find(&self.host.memory, fault.address) else {
            let is_own = self.host.memory.range().contains(fault.address);
            // Staging, touched by a program that populates all that is mapped. Or registered memory that moved to where
            // no window is yet: make one, look again.
            if is_own || self.window_for(fault.address).is_none() {
                let zero = AddressRange::new(fault.address, PAGE_SIZE);
                if let Some(uffd) = self.host.uffd.get()
                    && let Err(errno) = uffd.zero(zero)
                {
                    if errno == Errno::AGAIN {
                        self.read_changes();
                    }
                    let _ = uffd.wake(zero);
                }
                return Answer::now::<O>();
            }
            return self.answer(worker, fault, started);
        };
        let index = self.host.windows.get(segment).index_of(fault.address);
        let engine = &self.engine;
        let mut expected = engine.touched(fault.thread, (segment, index));
        if expected.is_none() {
            let room = |pages| self.may_restore_set(pages);
            engine.restore_set_around(self, worker, (segment, index), room);
        }
        let first =
            |expected: &mut Expected| engine.tunables().read_ahead_first() && expected.is_proven();
        if let Some(expected) = expected.take_if(first) {
            let in_time = |pages| O::now_ns() - started < FIRST_NS && self.may_read_ahead(pages);
            engine.read_ahead(self, worker, expected, in_time);
        }
        let access = match fault.access {
            coldpress_uffd::Access::Read => Access::Read,
            coldpress_uffd::Access::Write => Access::Write,
        };
        let outcome = engine.fault(self, worker, segment, index, access);
        let answered = O::now_ns();
        if matches!(
            outcome,
            FaultOutcome::Decompressed | FaultOutcome::Copied | FaultOutcome::SameFilled
        ) {
            statistics.fault_service.record(answered - started);
        }
        Answer {
            expected,
            answered,
            zero: (outcome == FaultOutcome::Zero).then_some((segment, index)),
        }
    }
}

impl<O: Os> Pager<O> {
    /// The watchdog's test asks for a first fault that takes its time.
    fn stall_for_the_watchdogs_test(&self) {
        let stall = &self.stall_first_fault_ms;
        if stall.load(Relaxed) != 0 {
            let ms = stall.swap(0, Relaxed);
            O::sleep_ns(ms * 1_000_000);
        }
    }
}
