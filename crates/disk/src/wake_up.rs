//! The bell by which the scanner is told that there is something to do.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

#[derive(Default)]
struct State {
    ends: bool,
}

#[derive(Default)]
pub(crate) struct WakeUp {
    /// It was rung since the scanner looked last.
    rung: AtomicBool,
    /// Guards going to sleep. A leaf.
    state: Mutex<State>,
    bell: Condvar,
}

impl WakeUp {
    /// There is something to do. Costs a load where that is known.
    pub(crate) fn ring(&self) {
        if !self.rung.load(SeqCst) && !self.rung.swap(true, SeqCst) {
            let _state = self.state.lock();
            self.bell.notify_all();
        }
    }

    /// The scanner shall end.
    pub(crate) fn end(&self) {
        self.state.lock().ends = true;
        self.bell.notify_all();
    }

    /// The scanner has seen what there is to do; whether it shall go on.
    pub(crate) fn look(&self) -> bool {
        self.rung.store(false, SeqCst);
        !self.state.lock().ends
    }

    /// Sleeps for a while, or until it is told to end.
    pub(crate) fn rest(&self, time: Duration) {
        let mut state = self.state.lock();
        if !state.ends {
            self.bell.wait_for(&mut state, time);
        }
    }

    /// Sleeps until there is something to do, or until it is told to end.
    pub(crate) fn sleep(&self) {
        let mut state = self.state.lock();
        while !state.ends && !self.rung.load(SeqCst) {
            self.bell.wait(&mut state);
        }
    }
}
