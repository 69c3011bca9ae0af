//! The clock: it goes on a little whenever it is read, and by what the weather does to it.

use crate::inject::Kind;
use crate::schedule::{note, random};
use std::cell::Cell;

/// Time that a reading takes, in nanoseconds.
const READING_NS: u64 = 3_000;

/// The clock.
#[derive(Debug)]
pub struct Clock {
    now_ns: Cell<u64>,
    /// Readings that will all say the same.
    still: Cell<u32>,
}

impl Clock {
    /// A clock that says this now.
    pub fn new(now_ns: u64) -> Self {
        Self {
            now_ns: Cell::new(now_ns),
            still: Cell::new(0),
        }
    }

    /// What it says.
    pub fn now_ns(&self) -> u64 {
        match self.still.get() {
            0 => self.now_ns.set(self.now_ns.get() + READING_NS),
            n => self.still.set(n - 1),
        }
        self.now_ns.get()
    }

    /// What it says, in milliseconds, without taking the time to read it.
    fn milliseconds(&self) -> u64 {
        self.now_ns.get() / 1_000_000
    }

    /// It jumps, or stands still for a while.
    pub fn disturb(&self) {
        if random().one_in(3) {
            note(Kind::ClockStill);
            self.still.set(random().below(200) as u32);
            return;
        }
        note(Kind::ClockJump);
        let before = self.milliseconds();
        self.jump(match random().below(3) {
            0 => random().below(2_000_000),
            1 => random().below(2_000_000_000),
            _ => random().below(300_000_000_000),
        });
        if self.milliseconds() >> 31 != before >> 31 {
            note(Kind::ClockWraps);
        }
    }

    /// Jumps forward.
    pub fn jump(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }
}
