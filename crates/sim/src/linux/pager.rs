//! The pager's threads: handlers, reclaimers, discovery.

use super::World;
use super::host::{HANDLERS, key_of};
use crate::codec::SimCodec;
use crate::failure::fail;
use crate::machine::Table;
use crate::reclaim;
use crate::schedule::{block, doze, random, step, wake};
use crate::trace::What;
use coldpress_engine::{FaultOutcome, Reclaimer, Worker};

impl World {
    pub(super) fn handler(&self, n: usize, mut worker: Worker<SimCodec>) {
        while !self.is_over() {
            self.goes_on();
            if random().one_in(2) && self.read_change() {
                continue;
            }
            let message = match self.hold.get() {
                true => None,
                false => self.machine.messages.borrow_mut().pop_front(),
            };
            self.busy[n].set(message);
            let Some(message) = message else {
                if !self.read_change() {
                    block(HANDLERS, Some(100));
                }
                continue;
            };
            step(What::Serve, message.place.0, message.place.1, 0);
            match self.still.get() {
                true => self.serve_still(&mut worker, message.place),
                false => self.serve(&mut worker, message.place, message.written),
            }
            self.busy[n].set(None);
        }
        wake(HANDLERS);
    }

    pub(super) fn serve(&self, worker: &mut Worker<SimCodec>, place: (u32, u32), written: bool) {
        let mut expected = self.engine.touched(0, place);
        let mut ahead = |worker: &mut Worker<SimCodec>| {
            if let Some(expected) = expected.take() {
                let goes_on = || !random().one_in(20);
                self.engine
                    .read_ahead(self.machine, worker, expected, goes_on);
            }
        };
        if random().one_in(2) {
            ahead(worker);
        }
        let outcome = self
            .engine
            .fault(self.machine, worker, place.0, place.1, written);
        step(What::Serve, place.0, place.1, outcome as u32 + 1);
        if outcome == FaultOutcome::NoMemory {
            fail(place, "this machine never lacks frames for pages");
        }
        ahead(worker);
    }

    pub(super) fn reclaim(&self, mut reclaimer: Reclaimer<SimCodec>) {
        self.machine.chunks.growing(&[Table::Storage]);
        while !self.is_over() {
            self.goes_on();
            self.rest_if_told();
            let machine = self.machine;
            reclaim::turn(self.engine, machine, &machine.clock, &mut reclaimer, 70);
        }
    }

    /// Tracks what the program has populated without the pager's help, and keeps tables ready.
    pub(super) fn discovery(&self) {
        let (machine, engine) = (self.machine, self.engine);
        while !self.is_over() {
            self.goes_on();
            self.rest_if_told();
            machine.chunks.growing(&[Table::Leaves]);
            engine.prepare_for(machine, 16, 0);
            machine.chunks.growing(&[Table::Records]);
            engine.prepare_for(machine, 0, 600);
            let (segment, first) = self.any_place();
            let end = (first + 40).min(machine.pages);
            for index in first..end {
                let entry = machine.at((segment, index));
                if entry.frame.get() != 0 && !entry.registered.get() {
                    let stable = machine.gate.enter(true);
                    // It may have been registered, and dropped, since.
                    if entry.frame.get() != 0 && !entry.registered.get() {
                        engine.track_known(machine, segment, index, true);
                    }
                    drop(stable);
                }
            }
            doze(2_000);
        }
    }

    /// Wakes who waits for a page, whoever asks for that.
    pub(super) fn wake_for_nothing(&self, place: (u32, u32)) {
        wake(key_of(place));
    }
}
