//! A process that has just begun has its first threads on one processor.
//!
//! The kernel puts a new thread where nothing runs. For a process that ends within a millisecond that is the wrong place:
//! the other processor has to be woken, each page of the stack and of the pager's tables is fetched there, unmapping
//! interrupts both, and the thread dies there. So a thread of the pager is called to the processor of the thread that makes
//! it, before it runs, and stays there, and what it makes with it, until it has something to do ([`disperse`]).
//!
//! * T1: where a thread of the program may run is never touched: who has made the process may say so at any moment.
//! * T2: a set that somebody else gives the pager's thread meanwhile stays (`taskset -ap`, a cpuset). If it is the same
//!   processor, the program's first thread was given it, too.
//! * T3: under a seccomp filter nothing is called that a pager does not call when it starts
//!   ([`filter::AT_START`](coldpress_linux::filter::AT_START)).

use coldpress_linux::sys::{self, Processors};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The thread is wherever it likes.
const ANYWHERE: u32 = u32::MAX;
/// It is about to be called.
const CALLED: u32 = u32::MAX - 1;
/// How long it waits, at a time, for the call to be over.
const CALL_NS: u64 = 100_000;

/// The processor where the thread is.
static HERE: AtomicU32 = AtomicU32::new(ANYWHERE);
/// Where it may be.
static HOME: [AtomicU64; Processors::WORDS] = [const { AtomicU64::new(0) }; Processors::WORDS];

/// A thread that is made meanwhile comes to the processor of the calling thread.
#[must_use]
pub(crate) struct Call(());

impl Call {
    /// Before it is made.
    pub(crate) fn begin() -> Self {
        HERE.store(CALLED, Relaxed);
        Self(())
    }

    /// Right after it was made.
    pub(crate) fn thread(self, thread: u32) {
        if let Some(here) = call(thread) {
            HERE.store(here, Release);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = HERE.compare_exchange(CALLED, ANYWHERE, Release, Relaxed);
    }
}

fn call(thread: u32) -> Option<u32> {
    let home = sys::processors(thread).filter(|home| home.count() > 1)?;
    let here = rustix::thread::sched_getcpu() as u32;
    for (word, home) in HOME.iter().zip(home.0) {
        word.store(home, Relaxed);
    }
    (home.contains(here) && sys::pin(thread, here)).then_some(here)
}

/// The calling thread, which was called, goes where it likes.
pub(crate) fn disperse() {
    while HERE.load(Acquire) == CALLED {
        sys::sleep_ns(CALL_NS);
    }
    let here = HERE.swap(ANYWHERE, Relaxed);
    if here == ANYWHERE {
        return;
    }
    let here = Processors::only(here);
    let first = sys::processors(sys::process_id());
    if sys::processors(0) != Some(here) || first == Some(here) {
        return;
    }
    // All that a cpuset allows, as if nobody had asked: what a thread asks for is remembered, and would hold it when its
    // container is given more. One that has a set of its own asks for that.
    let home = Processors(core::array::from_fn(|n| HOME[n].load(Relaxed)));
    sys::set_processors(0, &Processors::ALL);
    if sys::processors(0) != Some(home) {
        sys::set_processors(0, &home);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    fn now() -> Processors {
        sys::processors(0).expect("asked for itself")
    }

    /// What a thread that was called is told, and what it tells: where it may be then, and after it has dispersed.
    fn called(meanwhile: impl FnOnce(u32)) -> (Processors, Processors) {
        let (tell, told) = channel();
        let (go, may_go) = channel();
        let call = Call::begin();
        let thread = thread::spawn(move || {
            tell.send(sys::thread_id()).expect("somebody listens");
            may_go.recv().expect("told to go");
            let before = now();
            disperse();
            (before, now())
        });
        let number = told.recv().expect("its number");
        call.thread(number);
        meanwhile(number);
        go.send(()).expect("it waits");
        thread.join().expect("no failure")
    }

    /// One test, since all threads of a process share where they are.
    #[test]
    fn a_thread_that_is_called_comes_and_goes_where_it_may() {
        let calls = || {
            let home = now();
            if home.count() < 2 {
                std::eprintln!("SKIPPED: one processor");
                return;
            }
            let (before, after) = called(|_| ());
            assert_eq!(before.count(), 1, "it comes");
            assert_eq!(after, home, "it goes");
            assert_eq!(now(), home, "T1");
            let other = Processors::only(home.iter().last().expect("one"));
            let elsewhere = |thread| {
                let here = sys::processors(thread).expect("it is there");
                assert!(sys::set_processors(
                    thread,
                    &home.without(here.iter().next().expect("one"))
                ));
            };
            let (before, after) = called(elsewhere);
            assert_eq!(before, after, "T2: told meanwhile");
            // What is made while this thread may be in one place only has nowhere to come from.
            sys::set_processors(0, &other);
            assert_eq!(called(|_| ()), (other, other));
            drop(Call::begin());
            disperse();
            assert_eq!(now(), other, "none was made");
        };
        thread::spawn(calls).join().expect("as described");
    }
}
