//! Changes of the address space: what the kernel does, and what it tells of it.
//!
//! ```text
//!  madvise   announce ─ event is read ─ go on ──────── drop the pages, one by one
//!  munmap    announce ─ the memory is gone ─ event is read ─ go on
//!  mremap    announce ─ the pages are moved ─ event is read ─ go on
//! ```
//!
//! Between the announcement and its end nothing can be put in place or moved (`changing`). The event
//! is read with the gate closed, and acted on before it opens; the thread that changes memory goes
//! on from the moment of reading.

use super::host::{Change, Event, HANDLERS};
use super::{World, range_of};
use crate::failure::fail;
use crate::inject::Kind;
use crate::schedule::{block, doze, fires, note, random, simulation, step, wake};
use crate::trace::What;
use coldpress_engine::{Entry, PageIndex, Place, SegmentId};

/// Threads that change memory, one at a time.
const CHANGES: u64 = 1 << 63 | 1 << 60;

/// Events that were read.
const READ: u64 = 1 << 63 | 1 << 59;

/// How long memory may stay after it was announced that it will be dropped, in steps.
const LATE_STEPS: u64 = 3_000;

const DROPS: [Kind; 5] = [
    Kind::DropTaken,
    Kind::DropStaged,
    Kind::DropInCodec,
    Kind::DropStoring,
    Kind::DropRestoring,
];

const MOVES: [Kind; 5] = [
    Kind::MoveTaken,
    Kind::MoveStaged,
    Kind::MoveInCodec,
    Kind::MoveStoring,
    Kind::MoveRestoring,
];

const ONTO: [Kind; 5] = [
    Kind::OntoTaken,
    Kind::OntoStaged,
    Kind::OntoStaged,
    Kind::OntoStaged,
    Kind::OntoRestoring,
];

impl World {
    pub(super) fn drop_some(&self, (segment, first): Place) {
        let end = (first + random().between(1, 9) as u32).min(self.machine.pages);
        self.remove(segment, first, end);
    }

    /// `madvise(MADV_DONTNEED)`.
    pub(super) fn remove(&self, segment: SegmentId, first: PageIndex, end: PageIndex) {
        self.begin_change();
        step(What::Change, segment, first, end - first);
        let is_told = |index: PageIndex| self.machine.at((segment, index)).registered.get();
        // A mapping is registered whole or not at all.
        let told = is_told(first);
        let end = (first..end)
            .find(|&index| is_told(index) != told)
            .unwrap_or(end);
        if told {
            self.announce();
            if (first..end).any(|index| self.machine.is_being_taken((segment, index))) {
                note(Kind::DropTaken);
            }
            self.tell(Change::Remove(segment, first, end));
            self.end_announcement();
            if fires(Kind::LateZap) {
                doze(LATE_STEPS);
            }
        }
        for index in first..end {
            if told {
                step(What::Zap, segment, index, 0);
            }
            self.drop_now((segment, index));
        }
        self.end_change();
    }

    /// What is in place is dropped. What is not was forgotten when the event was read.
    fn drop_now(&self, place: Place) {
        let entry = self.machine.at(place);
        let in_place = entry.frame.get() != 0 || entry.poisoned.get();
        if in_place || !entry.registered.get() {
            self.forget(place);
        }
    }

    fn forget(&self, place: Place) {
        self.machine.zap(place);
        self.machine.at(place).doubtful.set(false);
        self.expected(place).zero();
    }

    /// `munmap`, and `mmap` of fresh memory some time later.
    pub(super) fn unmap_some(&self, (segment, first): Place) {
        let end = (first + random().between(1, 5) as u32).min(self.machine.pages);
        let places = || (first..end).map(|index| (segment, index));
        self.begin_change();
        step(What::Change, segment, first, end - first);
        if places().any(|place| self.machine.at(place).gone.get()) {
            self.end_change();
            return;
        }
        let is_told = places().any(|place| self.machine.at(place).registered.get());
        if is_told {
            self.announce();
        }
        for place in places() {
            self.forget(place);
            self.machine.at(place).gone.set(true);
        }
        if is_told {
            self.tell(Change::Unmap(segment, first, end));
            self.end_announcement();
        }
        self.end_change();
        doze(500);
        self.begin_change();
        for place in places() {
            let entry = self.machine.at(place);
            entry.registered.set(false);
            entry.gone.set(false);
            entry.pins.set(0);
        }
        self.end_change();
    }

    /// `mremap` with `MREMAP_DONTUNMAP`: the old place stays, empty.
    pub(super) fn move_some(&self, from: Place) {
        let to = match random().one_in(3) {
            true => self.target(),
            false => self.any_place(),
        };
        let room = self.machine.pages - from.1.max(to.1);
        let count = (random().between(1, 5) as u32).min(room);
        if from.0 == to.0 && from.1.abs_diff(to.1) < count {
            return;
        }
        self.begin_change();
        step(What::Change, from.0, from.1, to.1);
        let places = || (0..count).map(|n| ((from.0, from.1 + n), (to.0, to.1 + n)));
        let fits = |(from, to): (Place, Place)| {
            let (from, to) = (self.machine.at(from), self.machine.at(to));
            from.registered.get() && !from.gone.get() && !to.gone.get()
        };
        if !places().all(fits) {
            self.end_change();
            return;
        }
        self.announce();
        for (from, to) in places() {
            self.note_stage(from, MOVES);
            self.note_stage(to, ONTO);
            self.forget(to);
            let (old, new) = (self.machine.at(from), self.machine.at(to));
            new.frame.set(old.frame.replace(0));
            new.poisoned.set(old.poisoned.replace(false));
            new.doubtful.set(old.doubtful.replace(false));
            new.registered.set(true);
            new.pins.set(old.pins.replace(0));
            self.expected(to).take_over(self.expected(from));
        }
        self.tell(Change::Remap(from, to, count));
        self.end_announcement();
        self.end_change();
    }

    fn begin_change(&self) {
        while self.changing.replace(true) {
            block(CHANGES, None);
        }
    }

    fn end_change(&self) {
        self.changing.set(false);
        wake(CHANGES);
    }

    fn announce(&self) {
        self.machine.changing.set(self.machine.changing.get() + 1);
    }

    fn end_announcement(&self) {
        self.machine.changing.set(self.machine.changing.get() - 1);
    }

    /// Puts an event in the queue and waits until it was read.
    fn tell(&self, change: Change) {
        let key = READ | simulation().current() as u64;
        self.machine
            .events
            .borrow_mut()
            .push_back(Event { change, key });
        wake(HANDLERS);
        block(key, None);
    }

    /// A handler reads a change, if there is one, and acts on it before the gate opens.
    pub(super) fn read_change(&self) -> bool {
        if self.machine.events.borrow().is_empty() {
            return false;
        }
        let closed = self.machine.gate.close();
        // While the engine is still, nothing may change.
        if self.still.get() {
            return false;
        }
        let Some(Event { change, key }) = self.machine.events.borrow_mut().pop_front() else {
            return false;
        };
        let ((segment, first), count) = range_of(&change);
        if !matches!(change, Change::Remap(..)) {
            for place in (first..first + count).map(|index| (segment, index)) {
                self.note_stage(place, DROPS);
                let entry = self.machine.at(place);
                if entry.frame.get() == 0 && !entry.poisoned.get() {
                    self.forget(place);
                }
            }
        }
        wake(key);
        if random().one_in(8) {
            note(Kind::ReadBeforeApplied);
            doze(50);
        }
        self.act_on(change);
        drop(closed);
        true
    }

    fn act_on(&self, change: Change) {
        let (engine, machine) = (self.engine(), self.machine);
        match change {
            Change::Remove(segment, first, end) | Change::Unmap(segment, first, end) => {
                engine.decommit(machine, segment, first, end);
            }
            Change::Remap(from, to, count) => {
                engine.decommit(machine, to.0, to.1, to.1 + count);
                for n in 0..count {
                    let (from, to) = ((from.0, from.1 + n), (to.0, to.1 + n));
                    let moved = engine.transfer(machine, from, to);
                    let left = engine.entry(from.0, from.1);
                    if !moved && !matches!(left, Entry::Empty | Entry::Page(_)) {
                        fail(from, "no tables for memory that moved");
                    }
                }
                for n in 0..count {
                    self.wake_for_nothing((from.0, from.1 + n));
                }
            }
        }
    }
}
