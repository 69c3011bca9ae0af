//! What a world holds for as long as its threads run, and not longer.
//!
//! Threads, hooks and the engine's workspaces want `&'static`. A world is built, run and torn down
//! thousands of times in one run, so its parts are given back when it is over, the last first.

use crate::codec::{Scratch, SimCodec, State};
use crate::schedule::{Body, Simulation};
use coldpress_engine::{Reclaimer, Recoder, Worker, Workspace};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cell::RefCell;
use std::ops::Range;

/// Parts of a world. Dropped when no thread of it is left.
#[derive(Default)]
pub struct Held(RefCell<Vec<Box<dyn FnOnce()>>>);

/// Memory that is all zero.
fn zeroed<T>() -> Box<T> {
    let layout = Layout::new::<T>();
    // SAFETY: the layout is not empty for the types below; what is made of it may be all zero.
    unsafe {
        let memory = alloc_zeroed(layout).cast::<T>();
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(memory)
    }
}

impl Held {
    /// Keeps a part.
    pub fn keep<T: 'static>(&self, part: T) -> &'static T {
        self.keep_box(Box::new(part))
    }

    fn keep_box<T: 'static>(&self, part: Box<T>) -> &'static mut T {
        let part = Box::into_raw(part);
        // SAFETY: made of a box, and nobody uses it any more once this is dropped.
        let give_back = move || drop(unsafe { Box::from_raw(part) });
        self.0.borrow_mut().push(Box::new(give_back));
        // SAFETY: valid until then; handed out once.
        unsafe { &mut *part }
    }

    /// A worker of this number.
    pub fn worker(&self, id: u16) -> Worker<SimCodec> {
        Worker::new(id, self.keep_box(zeroed::<Workspace<SimCodec>>()))
    }

    /// A reclaimer that is this worker, with these slots.
    pub fn reclaimer(&self, id: u16, slots: Range<u16>) -> Reclaimer<SimCodec> {
        let state: &'static mut State = self.keep_box(zeroed());
        let buffer = self.keep_box(Box::new([0; 4096]));
        Reclaimer::new(state, buffer, self.worker(id), slots)
    }

    /// Who stores pages anew.
    pub fn recoder(&self) -> Recoder<SimCodec, SimCodec> {
        Recoder::new(self.keep_box(zeroed()))
    }

    /// Runs the threads that use these parts to their end, then looks at what they have left.
    ///
    /// # Errors
    /// What was found while they ran.
    pub fn run(
        self,
        simulation: &Simulation,
        threads: Vec<(&'static str, Body)>,
        check: impl FnOnce(),
    ) -> Result<(), String> {
        if let Err(found) = simulation.run(threads) {
            // They stand in the middle of everything: what they use stays.
            std::mem::forget(self);
            return Err(found);
        }
        check();
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        while let Some(give_back) = self.0.get_mut().pop() {
            give_back();
        }
    }
}

const _: () = assert!(size_of::<Scratch>() > 0 && size_of::<State>() > 0);
