//! A fork: reclaim rests, handlers are idle, the engine is still; faults are answered by reading
//! alone. What a child would inherit is compared with what it must be.

use super::{OTHERS_RESTING, World};
use crate::codec::SimCodec;
use crate::failure::fail;
use crate::inject::Kind;
use crate::schedule::{doze, note, simulation, step};
use crate::trace::What;
use coldpress_engine::{Content, Place, Worker};

/// Steps between two forks, on average half of it.
const PAUSE_STEPS: u64 = 60_000;

impl World {
    pub(super) fn fork(&self, mut worker: Worker<SimCodec>) {
        while !self.is_over() {
            doze(PAUSE_STEPS);
            self.goes_on();
            if simulation().is_stopping() {
                continue;
            }
            self.rest.set(true);
            while self.resting.get() < self.reclaimers + OTHERS_RESTING && !self.is_over() {
                doze(50);
            }
            if !self.is_over() {
                self.with_idle_handlers(|| self.still.set(true));
                note(Kind::Stillness);
                self.check_gauges();
                for place in self.machine.all() {
                    self.look_at(&mut worker, place);
                }
                doze(300);
                self.with_idle_handlers(|| self.carry_out());
            }
            self.rest.set(false);
        }
    }

    /// Acts with the gate closed, while no handler is in the middle of anything.
    fn with_idle_handlers(&self, then: impl FnOnce()) {
        self.hold.set(true);
        loop {
            let closed = self.machine.gate.close();
            if self.busy.iter().all(|busy| busy.get().is_none()) {
                then();
                drop(closed);
                self.hold.set(false);
                return;
            }
            drop(closed);
            doze(30);
        }
    }

    /// What the child would find in this page.
    fn look_at(&self, worker: &mut Worker<SimCodec>, place: Place) {
        step(What::Read, place.0, place.1, 1);
        let entry = self.machine.at(place);
        let is_away = || {
            entry.registered.get()
                && !entry.gone.get()
                && entry.frame.get() == 0
                && !entry.poisoned.get()
                && self.machine.changing.get() == 0
        };
        if !is_away() {
            return;
        }
        let content = self.engine.peek(self.machine, worker, place.0, place.1);
        // It may have been restored, written to or changed meanwhile.
        if !is_away() {
            return;
        }
        match content {
            Content::Bytes(page) => self.compare(place, page, "a child would read"),
            Content::Nothing | Content::Present => {
                self.compare(place, &[0; 4096], "a child would find nothing");
            }
            Content::Doubtful if entry.doubtful.get() => {}
            Content::Doubtful => fail(place, "damaged, and nobody did it"),
        }
    }

    /// Answers a fault by reading what is remembered.
    pub(super) fn serve_still(&self, worker: &mut Worker<SimCodec>, place: Place) {
        let (machine, entry) = (self.machine, self.machine.at(place));
        note(Kind::StillTouch);
        let inside = machine.gate.enter(false);
        let content = self.engine.peek(machine, worker, place.0, place.1);
        let missing = entry.frame.get() == 0 && !entry.poisoned.get();
        if !missing || entry.gone.get() || !entry.registered.get() || machine.changing.get() > 0 {
            drop(inside);
            // Whoever waits looks again.
            return machine.wake_sleepers(place);
        }
        match content {
            Content::Bytes(page) => machine.put(place, page),
            Content::Nothing | Content::Present => machine.put(place, &[0; 4096]),
            Content::Doubtful => {
                entry.poisoned.set(true);
                return machine.wake_sleepers(place);
            }
        }
        self.restored.borrow_mut().push(place);
    }

    /// Carries out what was noted: pages that were restored are in place, whatever became of them
    /// since (what changes them is told later).
    fn carry_out(&self) {
        let restored = std::mem::take(&mut *self.restored.borrow_mut());
        for place in restored {
            self.engine
                .acknowledge_present(self.machine, place.0, place.1);
        }
        self.still.set(false);
    }
}
