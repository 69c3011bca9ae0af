//! Threads that wait for a page which another thread restores.
//!
//! A place has a number that rises each time those are woken who wait for it; places share some numbers. A thread
//! that waits reads its number under the VMO's lock, and waits until it is another.

use coldpress_engine::Place;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Numbers. A power of two.
const NUMBERS: usize = 256;

pub(crate) struct Waiters {
    wakes: [AtomicU32; NUMBERS],
    /// Threads that wait, or are about to.
    waiting: AtomicU32,
    /// Held while a thread goes to sleep, or is woken. A leaf.
    door: Mutex<()>,
    woken: Condvar,
}

impl Default for Waiters {
    fn default() -> Self {
        Self {
            wakes: [const { AtomicU32::new(0) }; NUMBERS],
            waiting: AtomicU32::new(0),
            door: Mutex::new(()),
            woken: Condvar::new(),
        }
    }
}

impl Waiters {
    fn number(&self, (segment, index): Place) -> &AtomicU32 {
        let mixed = (segment ^ index.rotate_left(16)).wrapping_mul(0x9E37_79B9);
        &self.wakes[mixed as usize >> 24 & (NUMBERS - 1)]
    }

    /// How often those that wait for the place were woken.
    pub(crate) fn wakes(&self, place: Place) -> u32 {
        self.number(place).load(SeqCst)
    }

    pub(crate) fn wake(&self, place: Place) {
        self.number(place).fetch_add(1, SeqCst);
        // Either this thread sees that one waits, or that one sees the new number.
        if self.waiting.load(SeqCst) > 0 {
            let _door = self.door.lock();
            self.woken.notify_all();
        }
    }

    /// Waits until the number is no longer `seen`.
    pub(crate) fn wait(&self, place: Place, seen: u32) {
        let mut door = self.door.lock();
        self.waiting.fetch_add(1, SeqCst);
        while self.wakes(place) == seen {
            self.woken.wait(&mut door);
        }
        self.waiting.fetch_sub(1, SeqCst);
    }
}
