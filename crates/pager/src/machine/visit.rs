//! Reclaim visits the processor on which the program runs, to take pages there.
//!
//! Unmapping a page interrupts every processor that runs the process, and waits for its answer. Taken from another
//! processor, pages of a program that runs cost it an interrupt each few pages, and the taker waits with the gate entered, while
//! faults wait for the gate. Taken on the program's own processor, while the taker's has nothing else of this process, they
//! interrupt nobody. So reclaim takes a batch there, and goes back to compress it beside the program.
//!
//! * V1: nobody is held to one processor by us for longer than a visit. A visitor that does not get the processor (a real-time
//!   thread has it) may have entered the gate: a handler that waits for a lock for [`RESCUE_NS`] lets it go everywhere again.
//! * V2: where the thread may run is the owner's business. What was found when the visit began is put back, unless it was
//!   changed meanwhile by somebody else; then nothing is.

use coldpress_linux::sys::{self, Processors};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// How long a handler waits for a lock before it rescues the visitor.
pub(crate) const RESCUE_NS: u64 = 3_000_000;

/// The thread that visits; 0: none.
static VISITOR: AtomicU32 = AtomicU32::new(0);
/// Where it is.
static VISITED: AtomicU32 = AtomicU32::new(0);
/// Where it may run otherwise.
static HOME: [AtomicU64; Processors::WORDS] = [const { AtomicU64::new(0) }; Processors::WORDS];

/// Takes the calling thread to `processor`, if it may go there and somewhere else.
pub(crate) fn begin(processor: u32) {
    let Some(home) = sys::processors(0) else {
        return;
    };
    if !home.contains(processor) || home.count() < 2 {
        return;
    }
    for (word, home) in HOME.iter().zip(home.0) {
        word.store(home, Relaxed);
    }
    VISITED.store(processor, Relaxed);
    VISITOR.store(sys::thread_id(), Release);
    if !sys::set_processors(0, &Processors::only(processor)) {
        VISITOR.store(0, Relaxed);
    }
}

/// The calling thread goes elsewhere, if it has begun a visit.
pub(crate) fn end() {
    if VISITOR.load(Relaxed) == 0 {
        return;
    }
    let here = VISITED.load(Relaxed);
    let home = home();
    let is_ours = |now: Processors| now == Processors::only(here) || now == home;
    if sys::processors(0).is_some_and(is_ours) {
        sys::set_processors(0, &home.without(here));
        sys::set_processors(0, &home);
    }
    VISITOR.store(0, Release);
}

fn home() -> Processors {
    Processors(core::array::from_fn(|n| HOME[n].load(Relaxed)))
}

/// Whether anybody visits now.
pub(crate) fn is_under_way() -> bool {
    VISITOR.load(Relaxed) != 0
}

/// Lets the visitor go everywhere it may.
#[cold]
pub(crate) fn rescue() {
    let visitor = VISITOR.load(Acquire);
    let held = |now: Processors| now == Processors::only(VISITED.load(Relaxed));
    if visitor != 0 && sys::processors(visitor).is_some_and(held) {
        sys::set_processors(visitor, &home());
    }
}

/// In the child of a fork: the visitor is not there.
pub(crate) fn forget() {
    VISITOR.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::machine::linux::Linux;
    use crate::machine::os::Os;
    use std::sync::mpsc::channel;
    use std::thread;

    /// One test, since there is one visitor in a process.
    #[test]
    fn a_visitor_goes_there_and_comes_back_whatever_happens() {
        let home = sys::processors(0).expect("asked for itself");
        let Some(processor) = (0..1024).find(|&n| home.contains(n)) else {
            return;
        };
        thread::spawn(move || {
            if home.count() < 2 {
                std::eprintln!("SKIPPED: one processor");
                begin(processor);
                assert!(!is_under_way(), "there is nowhere else");
                return;
            }
            let now = || sys::processors(0).expect("asked for itself");
            begin(processor);
            assert!(is_under_way());
            assert_eq!(now(), Processors::only(processor));
            assert_eq!(Linux::processor_of(sys::thread_id()), Some(processor));
            end();
            assert!(!is_under_way());
            assert_eq!(now(), home);
            end();

            // V1: somebody waits for what the visitor holds.
            begin(processor);
            static HELD: AtomicU32 = AtomicU32::new(1);
            let (tell, told) = channel();
            thread::spawn(move || {
                Linux::wait_in_handler(&HELD, 1);
                tell.send(()).expect("somebody listens");
            });
            told.recv().expect("it came back to look");
            assert_eq!(now(), home, "it was rescued");
            end();
            assert_eq!(now(), home);

            // V2: the owner has another idea.
            begin(processor);
            let other = (0..1024)
                .find(|&n| home.contains(n) && n != processor)
                .expect("two");
            assert!(sys::set_processors(0, &Processors::only(other)));
            rescue();
            end();
            assert_eq!(now(), Processors::only(other));
            begin(processor);
            assert!(!is_under_way(), "it may not go there");
        })
        .join()
        .expect("as described");
    }
}
