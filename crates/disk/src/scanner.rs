//! The scanner: the thread that ages pages, compresses what is cold, compacts storage and gives idle frames back.
//!
//! All policy about pages is the engine's [`Caretaker`]. Where no page is left that could be compressed, and nothing is
//! to be compacted or given back, the thread sleeps until somebody writes or trims: a disk at rest costs no processor
//! time.

use crate::context::Context;
use crate::frames::Idle;
use crate::shared::{STEP_PAGES, Shared};
use coldpress_engine::Trigger;
use coldpress_engine::caretaker::Caretaker;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that compaction copies in a turn: a pause of some 50 µs for those that store.
const COMPACTED_BYTES: usize = 256 << 10;

/// A pass of compaction follows another only when one part in so many of all objects was freed since.
const FREED_PART: u64 = 32;

/// The shortest and the longest rest while pages age.
const SHORTEST_REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(500);

/// The thread, until it is dropped.
pub(crate) struct Scanner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Scanner {
    /// Starts it. `None`: no thread can be made.
    pub(crate) fn start(shared: &Arc<Shared>) -> Option<Self> {
        let its_core = shared.clone();
        let thread = std::thread::Builder::new().name("coldpress-scan".to_owned());
        let thread = thread.spawn(move || Turns::new(&its_core).run()).ok()?;
        Some(Self {
            shared: shared.clone(),
            thread: Some(thread),
        })
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        self.shared.wake_up.end();
        if let Some(thread) = self.thread.take() {
            // A panic was printed; there is nobody to hand it on to.
            let _ = thread.join();
        }
    }
}

/// What follows a turn.
enum Then {
    /// The next one.
    GoOn,
    Rest(Duration),
    Sleep,
}

struct Turns<'a> {
    shared: &'a Shared,
    caretaker: Caretaker,
    /// A pass of compaction is under way.
    compacting: bool,
    /// Objects freed, ever, when the last pass began: what is freed during a pass may lie behind it.
    freed_before: u64,
    /// Bytes of storage when the last pass began.
    bytes_before: usize,
    /// The last pass brought a sixteenth of that: another may, too.
    gained: bool,
}

impl<'a> Turns<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            caretaker: Caretaker::new(1),
            compacting: false,
            freed_before: 0,
            bytes_before: 0,
            gained: false,
        }
    }

    fn run(&mut self) {
        let shared = self.shared;
        while shared.wake_up.look() {
            // Borrowed for the turn: it is one of few.
            let then = self.turn(&mut shared.context());
            match then {
                Then::GoOn => {}
                Then::Rest(time) => shared.wake_up.rest(time),
                Then::Sleep => shared.wake_up.sleep(),
            }
        }
    }

    fn turn(&mut self, context: &mut Context) -> Then {
        let shared = self.shared;
        shared.count_tables();
        let step = {
            let mut source = shared.source(context.reclaimer(), Trigger::Eager);
            self.caretaker.step(&mut source)
        };
        let mut went = step.pressed.pages() + step.eager.pages();
        let waiting = shared.waiting_pages();
        if shared.machine.frames.left_for_pages() == 0 && waiting > 0 {
            // Those that write are about to fail, and what is active must go.
            shared.compress(context, STEP_PAGES, Trigger::Pressure);
            went += waiting.saturating_sub(shared.waiting_pages());
        }
        let goes_on = self.compact();
        shared.machine.frames.give_back(Idle::TooMany);
        if went > 0 || goes_on {
            return Then::GoOn;
        }
        if waiting > 0 {
            return Then::Rest(self.rest());
        }
        // Nothing is done until somebody writes: what is idle now stays idle.
        shared.machine.frames.give_back(Idle::All);
        Then::Sleep
    }

    /// Half an ageing interval.
    fn rest(&self) -> Duration {
        let interval_ms = self.shared.engine().tunables().load().max_aging_interval_ms;
        Duration::from_millis(interval_ms / 2).clamp(SHORTEST_REST, LONGEST_REST)
    }

    /// A step of compaction, if there is something to be gained. Whether another turn shall follow at once.
    fn compact(&mut self) -> bool {
        let shared = self.shared;
        let engine = shared.engine();
        if !self.compacting {
            let (freed, usage) = (shared.objects_freed(), engine.storage_usage());
            let is_worth_it =
                self.gained || freed - self.freed_before > usage.objects as u64 / FREED_PART;
            if !is_worth_it || !shared.is_sparse() {
                return false;
            }
            (self.compacting, self.freed_before) = (true, freed);
            self.bytes_before = usage.storage_bytes;
        }
        match engine.compact(&shared.machine, COMPACTED_BYTES) {
            Some(done) if done.pass_ended => {
                self.compacting = false;
                let bytes = engine.storage_usage().storage_bytes;
                self.gained = bytes < self.bytes_before - self.bytes_before / 16;
            }
            Some(_) => {}
            // An object is being stored: its turn first.
            None => std::thread::yield_now(),
        }
        // Behind the last step of a pass, too: what was freed during it may be worth another.
        true
    }
}
