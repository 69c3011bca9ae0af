//! The gate: many inside, or closed by one.

use crate::inject::Kind;
use crate::schedule::{NOBODY, block, doze, fires, random, simulation, step, wake};
use crate::trace::What;
use std::cell::Cell;

/// Waiters of the gate.
const GATE: u64 = 1 << 63 | 1 << 62;

/// How long who is inside may be stopped, in steps.
const STOPPED_STEPS: u64 = 400;

/// The gate.
#[derive(Debug, Default)]
pub struct Gate {
    inside: Cell<u32>,
    closed: Cell<bool>,
    closers: Cell<u32>,
    /// Sabotage: it keeps nobody out.
    pub broken: Cell<bool>,
}

/// Somebody is inside.
pub struct Inside<'a>(&'a Gate);

/// The gate is closed.
pub struct Closed<'a>(&'a Gate);

impl Gate {
    /// Goes inside. `in_turn`: only while nobody waits to close it.
    pub fn enter(&self, in_turn: bool) -> Inside<'_> {
        step(What::Enter, 0, 0, self.inside.get());
        let patient = in_turn || random().one_in(2);
        while self.closed.get() && !self.broken.get() || patient && self.closers.get() > 0 {
            block(GATE, None);
        }
        self.inside.set(self.inside.get() + 1);
        let open = simulation().stable_sections();
        open.set(open.get() + 1);
        if simulation().current() != NOBODY && fires(Kind::StablePreempted) {
            doze(STOPPED_STEPS);
        }
        Inside(self)
    }

    /// Closes it, once nobody is inside any more.
    pub fn close(&self) -> Closed<'_> {
        assert_eq!(
            simulation().stable_sections().get(),
            0,
            "a change inside a stable section"
        );
        step(What::Close, 0, 0, self.inside.get());
        self.closers.set(self.closers.get() + 1);
        while self.closed.get() || self.inside.get() > 0 && !self.broken.get() {
            block(GATE, None);
        }
        self.closers.set(self.closers.get() - 1);
        self.closed.set(true);
        Closed(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let open = simulation().stable_sections();
        open.set(open.get() - 1);
        self.0.inside.set(self.0.inside.get() - 1);
        if self.0.inside.get() == 0 {
            wake(GATE);
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.closed.set(false);
        wake(GATE);
    }
}
