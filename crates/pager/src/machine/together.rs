//! A process that has just begun has its first threads on one processor.
//!
//! The kernel puts a new thread where nothing runs. For a process that ends within a millisecond that is the wrong place:
//! the other processor has to be woken, each page of the stack and of the pager's tables is fetched there, unmapping
//! interrupts both, and the thread dies there. A child of `fork` that only ends cost 1.8 times what it costs natively, and
//! costs 1.25 times so. So who makes the threads of such a process stays on its processor meanwhile, and they stay there
//! until they have something to do ([`disperse`]).
//!
//! * T1: the program's thread may run afterwards where it might before, and where a cpuset that changes lets it. Kernels
//!   since 6.2 keep what was asked for and intersect it with the cpuset, so asking for what the thread had been told would
//!   hold it there when its container is given more. It asks for all processors; only one that has a set of its own asks
//!   for that.
//! * T2: a set that somebody else has given the thread meanwhile stays.
//! * T3: under a seccomp filter nothing is called that a pager does not call when it starts
//!   ([`filter::AT_START`](coldpress_linux::filter::AT_START)).

use coldpress_linux::sys::{self, Processors};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// No processor.
const NONE: u32 = u32::MAX;

/// Where the threads are that have been made together; [`NONE`]: wherever they like.
static HERE: AtomicU32 = AtomicU32::new(NONE);
/// Where they may be.
static HOME: [AtomicU64; Processors::WORDS] = [const { AtomicU64::new(0) }; Processors::WORDS];

/// The calling thread stays on its processor, and threads that it makes with it, until this is dropped.
#[must_use]
pub(crate) struct Stay(Option<(Processors, Processors)>);

impl Stay {
    /// From now on, if there is somewhere else to go.
    pub(crate) fn begin() -> Self {
        HERE.store(NONE, Relaxed);
        let Some(home) = sys::processors(0).filter(|home| home.count() > 1) else {
            return Self(None);
        };
        let here = rustix::thread::sched_getcpu() as u32;
        for (word, home) in HOME.iter().zip(home.0) {
            word.store(home, Relaxed);
        }
        if !home.contains(here) || !sys::pin(0, here) {
            return Self(None);
        }
        HERE.store(here, Release);
        Self(Some((Processors::only(here), home)))
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some((here, home)) = self.0 {
            release(here, home);
        }
    }
}

/// The calling thread, which was made during a [`Stay`], goes where it likes.
pub(crate) fn disperse() {
    let here = HERE.swap(NONE, Acquire);
    if here != NONE {
        let home = Processors(core::array::from_fn(|n| HOME[n].load(Relaxed)));
        release(Processors::only(here), home);
    }
}

fn release(here: Processors, home: Processors) {
    if sys::processors(0) != Some(here) {
        return;
    }
    // All that the cpuset allows: as if nobody had asked.
    sys::set_processors(0, &Processors::ALL);
    if sys::processors(0) != Some(home) {
        sys::set_processors(0, &home);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::thread;

    fn now() -> Processors {
        sys::processors(0).expect("asked for itself")
    }

    /// One test, since all threads of a process would share where they are.
    #[test]
    fn threads_begin_on_one_processor_and_go_where_they_may() {
        thread::spawn(|| {
            let home = now();
            if home.count() < 2 {
                std::eprintln!("SKIPPED: one processor");
                return;
            }
            let made = {
                let _stay = Stay::begin();
                let here = now();
                assert_eq!(here.count(), 1, "it stays");
                thread::spawn(move || {
                    assert_eq!(now(), here, "made together");
                    disperse();
                    now()
                })
            };
            assert_eq!(now(), home, "it may go again");
            assert_eq!(made.join().expect("no failure"), home);

            let stay = Stay::begin();
            let elsewhere = home.without(now().iter().next().expect("one"));
            sys::set_processors(0, &elsewhere);
            drop(stay);
            assert_eq!(now(), elsewhere, "T2: told meanwhile");

            let processor = home.iter().next().expect("one");
            sys::pin(0, processor);
            drop(Stay::begin());
            assert_eq!(now(), Processors::only(processor), "nowhere else to go");
        })
        .join()
        .expect("as described");
    }
}
