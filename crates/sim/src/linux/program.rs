//! Threads of the program: they read and write their memory, compare all they read with what it
//! must be, drop memory and move it.

use super::host::{HANDLERS, Message, key_of};
use super::{SimEngine, World};
use crate::content;
use crate::failure::fail;
use crate::inject::Kind;
use crate::schedule::{block, doze, fires, note, random, simulation, step, wake};
use crate::trace::What;
use coldpress_codec::Page;
use coldpress_engine::{Entry, Place};

/// After so many steps a sleeper looks again whether it was forgotten.
const SLEEP_STEPS: u64 = 60_000;

/// How a touch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// The page was there.
    Done,
    /// There is no such memory.
    Gone,
    /// The page was poisoned, and was dropped since.
    Poisoned,
}

impl World {
    pub(super) fn program(&self) {
        // Where this thread works at the moment: the rest grows cold.
        let mut base = self.any_place();
        while !simulation().is_stopping() {
            self.goes_on();
            if random().one_in(60) {
                base = self.any_place();
            }
            let place = match random().below(8) {
                0..=4 => (
                    base.0,
                    (base.1 + random().below(8) as u32) % self.machine.pages,
                ),
                5..=6 => self.target(),
                _ => self.any_place(),
            };
            match random().below(100) {
                0..=49 => self.read(place),
                50..=79 => self.write(place),
                80..=84 => self.read_run(place),
                85..=91 => self.drop_some(place),
                92..=97 => self.move_some(place),
                98 => self.unmap_some(place),
                _ => doze(500),
            }
        }
        self.programs.set(self.programs.get() - 1);
        if self.is_over() {
            wake(HANDLERS);
        }
    }

    fn read(&self, place: Place) {
        self.touch(place, false, |page| {
            self.compare(place, page, "the program reads");
            // Whatever was in doubt has turned out well.
            self.machine.at(place).doubtful.set(false);
        });
    }

    fn read_run(&self, (segment, first): Place) {
        let end = (first + random().between(1, 20) as u32).min(self.machine.pages);
        (first..end).for_each(|index| self.read((segment, index)));
    }

    fn write(&self, place: Place) {
        match random().below(4) {
            0 => {
                let (at, bytes) = content::few_words(random());
                self.store(place, |page| {
                    page[at..at + bytes.len()].copy_from_slice(&bytes)
                });
            }
            _ => {
                let mut page = [0; 4096];
                content::fill(random(), &mut page);
                if fires(Kind::SlowWriter) {
                    let middle = random().below(512) as usize * 8;
                    self.store(place, |to| to[..middle].copy_from_slice(&page[..middle]));
                    doze(2_000);
                    self.store(place, |to| to[middle..].copy_from_slice(&page[middle..]));
                } else {
                    self.store(place, |to| to.copy_from_slice(&page));
                }
            }
        }
    }

    /// Writes to a page and to what it must be.
    fn store(&self, place: Place, act: impl Fn(&mut Page)) {
        self.touch(place, true, |page| {
            self.compare(place, page, "before it is written to");
            act(page);
            self.expected(place).write(&act);
            self.machine.at(place).doubtful.set(false);
        });
    }

    /// Acts on a page as the program sees it, once it is in place.
    fn touch(&self, place: Place, written: bool, act: impl FnOnce(&mut Page)) -> Touched {
        let machine = self.machine;
        let what = if written { What::Write } else { What::Read };
        loop {
            step(what, place.0, place.1, 0);
            let entry = machine.at(place);
            if entry.gone.get() {
                return Touched::Gone;
            }
            if entry.poisoned.get() {
                self.take_signal(place);
                return Touched::Poisoned;
            }
            if entry.frame.get() != 0 {
                machine.ram.with(entry.frame.get(), act);
                return Touched::Done;
            }
            if !entry.registered.get() {
                // The kernel's own fault: fresh memory.
                machine.put(place, &[0; 4096]);
                continue;
            }
            self.note_stage(place, super::TOUCHES);
            self.sleep_until_answered(place, written);
        }
    }

    /// The page was stopped. That must have had a reason; the program drops it.
    fn take_signal(&self, place: Place) {
        if !self.machine.at(place).doubtful.get() {
            fail(place, "poisoned for no reason");
        }
        note(Kind::Poisoned);
        self.remove(place.0, place.1, place.1 + 1);
    }

    /// Raises a fault and sleeps.
    fn sleep_until_answered(&self, place: Place, written: bool) {
        let me = 1 << simulation().current();
        let lost = &self.machine.at(place).lost;
        lost.set(lost.get() & !me);
        self.raise(place, written);
        while !block(key_of(place), Some(SLEEP_STEPS)) {
            if lost.get() & me != 0 {
                // Nobody will wake us again.
                self.raise(place, written);
                lost.set(lost.get() & !me);
                continue;
            }
            let entry = self.machine.at(place);
            let answered = entry.frame.get() != 0 || entry.poisoned.get();
            let busy = self
                .busy
                .iter()
                .any(|busy| busy.get().is_some_and(|m| m.place == place));
            let requested = matches!(self.engine.entry(place.0, place.1), Entry::Request(_));
            let queued = self
                .machine
                .messages
                .borrow()
                .iter()
                .any(|m| m.place == place);
            if answered || !busy && !queued && !requested {
                fail(place, "a thread sleeps that nobody will wake");
            }
        }
    }

    fn raise(&self, place: Place, written: bool) {
        let message = Message { place, written };
        self.machine.messages.borrow_mut().push_back(message);
        wake(HANDLERS);
    }

    /// The engine.
    pub(super) fn engine(&self) -> &'static SimEngine {
        self.engine
    }
}
