//! Reclaim visits the processor on which the program runs, to take pages there.
//!
//! Unmapping a page interrupts every processor that runs the process, and waits for its answer. Taken from another
//! processor, pages of a program that runs cost it an interrupt each few pages, and the taker waits with the gate entered,
//! while faults wait for the gate. Taken on the program's own processor, while the taker's has nothing else of this process,
//! they interrupt nobody. So reclaim takes a batch there, and goes back to compress it beside the program.
//!
//! * V1: nobody is held to one processor by us for longer than a visit. A visitor that does not get the processor (a
//!   real-time thread has it) may have entered the gate: a handler that waits for a lock for [`RESCUE_NS`] lets it go
//!   everywhere again.
//! * V2: where the thread may run is the owner's business. What was found when the visit began is put back, unless it was
//!   changed meanwhile by somebody else; then nothing is.
//! * V3: nothing is called for a visit under a seccomp filter that was not there when the pager started, since it could kill
//!   for the calls: the number of filters is looked at before. One that the pager sees coming waits for a visit to end
//!   ([`forbid`]); one that it does not see may leave the visitor where it is.

use coldpress_linux::sys::{self, Processors};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use rustix::fs::{Mode, OFlags};

/// How long a handler waits for a lock before it rescues the visitor.
pub(crate) const RESCUE_NS: u64 = 3_000_000;

/// The thread that visits; 0: none.
static VISITOR: AtomicU32 = AtomicU32::new(0);
/// Where it is.
static VISITED: AtomicU32 = AtomicU32::new(0);
/// Where it may run otherwise.
static HOME: [AtomicU64; Processors::WORDS] = [const { AtomicU64::new(0) }; Processors::WORDS];
/// Threads that rescue it.
static RESCUERS: AtomicU32 = AtomicU32::new(0);
/// No visit begins any more.
static FORBIDDEN: AtomicBool = AtomicBool::new(true);
/// Seccomp filters of the reclaim thread when the pager started.
static FILTERS: AtomicU32 = AtomicU32::new(0);

/// The pager starts in the calling thread: nobody visits, and from now on somebody may.
pub(crate) fn start() {
    VISITOR.store(0, SeqCst);
    RESCUERS.store(0, SeqCst);
    let filters = filters();
    FILTERS.store(filters.unwrap_or(0), SeqCst);
    FORBIDDEN.store(filters.is_none(), SeqCst);
}

/// No visit is under way when this returns, and none begins: a filter comes that may kill for the calls.
pub(crate) fn forbid() {
    FORBIDDEN.store(true, SeqCst);
    while VISITOR.load(SeqCst) != 0 || RESCUERS.load(SeqCst) != 0 {
        rescue();
        sys::sleep_ns(50_000);
    }
}

/// Seccomp filters of the calling thread. `None`: the kernel does not tell.
fn filters() -> Option<u32> {
    const NAME: &[u8] = b"\nSeccomp_filters:\t";
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/thread-self/status", flags, Mode::empty()).ok()?;
    let mut text = [0; 4096];
    let len = rustix::io::read(&file, &mut text).ok()?;
    let text = text.get(..len)?;
    let at = text.windows(NAME.len()).position(|name| name == NAME)?;
    let digits = text[at + NAME.len()..]
        .iter()
        .take_while(|c| c.is_ascii_digit());
    Some(digits.fold(0, |number, c| number * 10 + u32::from(c - b'0')))
}

/// Takes the calling thread to `processor`, if it may go there and somewhere else.
pub(crate) fn begin(processor: u32) {
    if FORBIDDEN.load(Relaxed) || !may_call() {
        return;
    }
    VISITOR.store(sys::thread_id(), SeqCst);
    if FORBIDDEN.load(SeqCst) || !go(processor) {
        VISITOR.store(0, SeqCst);
    }
}

/// V3.
fn may_call() -> bool {
    filters() == Some(FILTERS.load(Relaxed))
}

fn go(processor: u32) -> bool {
    let Some(home) = sys::processors(0) else {
        return false;
    };
    if !home.contains(processor) || home.count() < 2 {
        return false;
    }
    for (word, home) in HOME.iter().zip(home.0) {
        word.store(home, Relaxed);
    }
    VISITED.store(processor, SeqCst);
    sys::set_processors(0, &Processors::only(processor))
}

/// The calling thread goes elsewhere, if it has begun a visit.
pub(crate) fn end() {
    if VISITOR.load(Relaxed) == 0 {
        return;
    }
    let here = VISITED.load(Relaxed);
    let home = home();
    let is_ours = |now: Processors| now == Processors::only(here) || now == home;
    if may_call() && sys::processors(0).is_some_and(is_ours) {
        sys::set_processors(0, &home.without(here));
        sys::set_processors(0, &home);
    }
    VISITOR.store(0, SeqCst);
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
    RESCUERS.fetch_add(1, SeqCst);
    let visitor = VISITOR.load(SeqCst);
    let held = |now: Processors| now == Processors::only(VISITED.load(SeqCst));
    if visitor != 0 && may_call() && sys::processors(visitor).is_some_and(held) {
        sys::set_processors(visitor, &home());
    }
    RESCUERS.fetch_sub(1, SeqCst);
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::machine::linux::Linux;
    use crate::machine::os::Os;
    use std::sync::mpsc::channel;
    use std::thread;

    fn now() -> Processors {
        sys::processors(0).expect("asked for itself")
    }

    /// One test, since there is one visitor in a process.
    #[test]
    fn a_visitor_goes_there_and_comes_back_whatever_happens() {
        let visits = || {
            let home = now();
            let mut all = (0..1024).filter(|&n| home.contains(n));
            let processor = all.next().expect("one");
            begin(processor);
            assert!(!is_under_way(), "the pager has not started");
            start();
            let Some(other) = all.next() else {
                std::eprintln!("SKIPPED: one processor");
                begin(processor);
                assert!(!is_under_way(), "there is nowhere else");
                return;
            };
            goes_and_comes(home, processor);
            is_rescued(home, processor);
            is_left_where_somebody_else_puts_it(processor, other);
            sys::set_processors(0, &home);
            waits_for_filters(processor);
        };
        thread::spawn(visits).join().expect("as described");
    }

    fn goes_and_comes(home: Processors, processor: u32) {
        begin(processor);
        assert!(is_under_way());
        assert_eq!(now(), Processors::only(processor));
        assert_eq!(
            Linux::processor_of(sys::thread_id()),
            Some(processor),
            "it runs there"
        );
        end();
        assert!(!is_under_way());
        assert_eq!(now(), home);
        end();
    }

    /// V1: somebody waits for what the visitor holds.
    fn is_rescued(home: Processors, processor: u32) {
        static HELD: AtomicU32 = AtomicU32::new(1);
        begin(processor);
        let (tell, told) = channel();
        thread::spawn(move || {
            sys::set_processors(0, &home);
            Linux::wait_in_handler(&HELD, 1);
            tell.send(()).expect("somebody listens");
        });
        told.recv().expect("it came back to look");
        assert_eq!(now(), home, "it was rescued");
        end();
        assert_eq!(now(), home);
    }

    /// V2.
    fn is_left_where_somebody_else_puts_it(processor: u32, other: u32) {
        begin(processor);
        assert!(sys::set_processors(0, &Processors::only(other)));
        rescue();
        end();
        assert_eq!(now(), Processors::only(other));
        begin(processor);
        assert!(!is_under_way(), "it may not go there");
    }

    /// V3: a filter that allows everything.
    fn waits_for_filters(processor: u32) {
        begin(processor);
        assert!(is_under_way());
        end();
        assert!(install_a_filter());
        begin(processor);
        assert!(!is_under_way(), "there is a filter more");
        start();
        begin(processor);
        assert!(is_under_way(), "it was there at the start");
        let forbids = thread::spawn(forbid);
        while !FORBIDDEN.load(SeqCst) {
            thread::yield_now();
        }
        assert!(!forbids.is_finished(), "it waits for the visitor");
        end();
        forbids.join().expect("it came back");
        begin(processor);
        assert!(!is_under_way());
    }

    fn install_a_filter() -> bool {
        use linux_raw_sys::general as nr;
        const PR_SET_NO_NEW_PRIVS: usize = 38;
        let allow = coldpress_linux::filter::Instruction {
            code: 6,
            jump_true: 0,
            jump_false: 0,
            k: 0x7FFF_0000,
        };
        let program = (1u64, &raw const allow);
        let arguments = [1, 0, (&raw const program) as usize, 0, 0, 0];
        // SAFETY: `struct sock_fprog` of one instruction; it concerns the calling thread alone.
        unsafe {
            sys::syscall(nr::__NR_prctl, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]);
            sys::syscall(nr::__NR_seccomp, arguments) == 0
        }
    }
}
