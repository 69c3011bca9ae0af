//! A number of frames that may be in use, and what happens when it comes near its end.
//!
//! The budget hands out no frames, only the right to them: a machine asks before it takes frames, and
//! says when it gave them back. It tells three things:
//!
//! * an **event**, once, when the number of free frames leaves a range (low memory, or plenty again):
//!   who watches sets the next range then ([`FrameBudget::watch`]).
//! * to **hold**: those that can wait get nothing from the moment on when fewer frames are free than
//!   are kept for those that cannot, or when somebody says so. That ends only when the next range is
//!   set, not when frames come back: whoever reclaims decides.
//! * to **wake**, when holding ends. Waiting is the machine's business; it compares [`epoch`], which
//!   changes each time, so that no end is slept through.
//!
//! [`epoch`]: FrameBudget::epoch

use crate::machine::lock::{HeldRanks, Lock, rank};
use lock_api::RawMutex;

/// What the machine has to do after a call.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tell {
    /// Tell who watches: the range was left.
    pub event: bool,
    /// Wake all that wait: holding has ended.
    pub wake: bool,
}

/// Why there are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// So many are not free.
    NoFrames,
    /// Who can wait shall wait.
    Hold,
}

/// Whether whoever takes frames can wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It can, and is refused while frames are held for those that cannot.
    Allowed,
    /// It cannot.
    Forbidden,
}

struct State {
    free: u64,
    /// The event is due when `free` leaves this range; none is due without one.
    range: Option<(u64, u64)>,
    /// Holding begins when fewer are free.
    hold_below: u64,
    holds: bool,
    never_holds: bool,
    epoch: u64,
}

impl State {
    fn note(&mut self) -> Tell {
        let outside = |(low, high): (u64, u64)| self.free < low || self.free > high;
        let event = self.range.is_some_and(outside);
        if event {
            self.range = None;
        }
        if self.free < self.hold_below && !self.never_holds {
            self.holds = true;
        }
        Tell { event, wake: false }
    }

    fn lift(&mut self) -> bool {
        self.epoch += 1;
        core::mem::take(&mut self.holds)
    }
}

/// The budget. `R` is the host's lock.
pub struct FrameBudget<R> {
    /// Guards the counts; a leaf of the order, held for a few stores.
    state: Lock<R, State, { rank::LEAF }>,
}

impl<R: RawMutex + HeldRanks> FrameBudget<R> {
    /// So many frames, all free.
    pub const fn new(frames: u64) -> Self {
        Self {
            state: Lock::new(State {
                free: frames,
                range: None,
                hold_below: 0,
                holds: false,
                never_holds: false,
                epoch: 0,
            }),
        }
    }

    /// Frames that are free.
    pub fn free(&self) -> u64 {
        self.state.lock().free
    }

    /// Watches a range, which holds the number of free frames now, and ends holding; it begins
    /// again when fewer than `hold_below` are free. `None`: the number is outside; nothing has
    /// changed.
    pub fn watch(&self, low: u64, high: u64, hold_below: u64) -> Option<Tell> {
        let mut state = self.state.lock();
        if !(low..=high).contains(&state.free) {
            return None;
        }
        state.range = Some((low, high));
        state.hold_below = hold_below;
        let wake = state.lift();
        Some(Tell { event: false, wake })
    }

    /// Takes the right to `frames` frames, all or none.
    ///
    /// # Errors
    /// There are not so many, or the caller can wait and shall.
    pub fn take(&self, frames: u64, wait: Wait) -> Result<Tell, Refused> {
        let mut state = self.state.lock();
        if wait == Wait::Allowed && state.holds {
            return Err(Refused::Hold);
        }
        state.free = state.free.checked_sub(frames).ok_or(Refused::NoFrames)?;
        Ok(state.note())
    }

    /// Gives the right to `frames` frames back.
    pub fn give(&self, frames: u64) -> Tell {
        let mut state = self.state.lock();
        state.free += frames;
        state.note()
    }

    /// Holds whoever can wait, whatever is free, until a range is watched.
    pub fn hold(&self) {
        let mut state = self.state.lock();
        state.holds = !state.never_holds;
    }

    /// Ends holding for good: for a machine that shuts down, or one that has nobody who reclaims.
    pub fn never_hold(&self) -> Tell {
        let mut state = self.state.lock();
        state.never_holds = true;
        let wake = state.lift();
        Tell { event: false, wake }
    }

    /// Whether those that can wait are held.
    pub fn holds(&self) -> bool {
        self.state.lock().holds
    }

    /// How often holding was ended.
    pub fn epoch(&self) -> u64 {
        self.state.lock().epoch
    }
}
