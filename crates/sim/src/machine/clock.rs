//! The clock: it goes on a little whenever it is read, and by what the weather does to it.

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
    pub fn milliseconds(&self) -> u64 {
        self.now_ns.get() / 1_000_000
    }

    /// Jumps forward.
    pub fn jump(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }

    /// Stands still for so many readings.
    pub fn stand_still(&self, readings: u32) {
        self.still.set(readings);
    }
}
