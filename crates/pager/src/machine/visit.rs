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
//! * V2: where the pager's threads may run is the owner's business, and he may say so in the middle of a visit: for all threads
//!   (`taskset -ap`) or by a cpuset. So what counts at the end, and before the next visit, is where the watchdog may run: it is
//!   as free as the program, and goes on no visits.
//! * V3: nothing is called for a visit under a seccomp filter that was not there when the pager started, since it could kill
//!   for the calls: the number of filters is looked at before, in a file that is open since then. One that the pager sees coming
//!   waits for a visit to end ([`forbid`]); one that it does not see may leave the visitor where it is.

use coldpress_linux::sys::{self, Processors};
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

/// How long a handler waits for a lock before it rescues the visitor.
pub(crate) const RESCUE_NS: u64 = 3_000_000;

/// The thread that visits; 0: none.
static VISITOR: AtomicU32 = AtomicU32::new(0);
/// Where it is.
static VISITED: AtomicU32 = AtomicU32::new(0);
/// Where it may run otherwise.
static HOME: [AtomicU64; Processors::WORDS] = [const { AtomicU64::new(0) }; Processors::WORDS];
/// A thread that may run wherever the visitor may, and goes on no visits; 0: there is none, and so no visit.
static SIBLING: AtomicU32 = AtomicU32::new(0);
/// Threads that rescue it.
static RESCUERS: AtomicU32 = AtomicU32::new(0);
/// No visit begins any more.
static FORBIDDEN: AtomicBool = AtomicBool::new(true);
/// Seccomp filters of the reclaim thread when the pager started.
static FILTERS: AtomicU32 = AtomicU32::new(0);
/// What the kernel says of the reclaim thread.
static STATUS: Status = Status(UnsafeCell::new(None));

struct Status(UnsafeCell<Option<OwnedFd>>);

// SAFETY: written by `start`, while the pager has one thread; then only read.
unsafe impl Sync for Status {}

impl Status {
    fn file(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: as above.
        unsafe { (*self.0.get()).as_ref().map(AsFd::as_fd) }
    }
}

/// The pager starts in the calling thread: nobody visits, and once there is a sibling somebody may.
///
/// # Safety
/// The pager has no other thread.
pub(crate) unsafe fn start() {
    VISITOR.store(0, SeqCst);
    RESCUERS.store(0, SeqCst);
    SIBLING.store(0, SeqCst);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/thread-self/status", flags, Mode::empty()).ok();
    // SAFETY: as the caller promises. A file that was open before is in a table that is gone, or was closed with all others.
    unsafe { core::mem::forget((*STATUS.0.get()).take()) };
    // SAFETY: as above.
    unsafe { *STATUS.0.get() = file };
    let filters = filters();
    FILTERS.store(filters.unwrap_or(0), SeqCst);
    FORBIDDEN.store(filters.is_none(), SeqCst);
}

/// Where `thread` may run is where the reclaim thread may.
pub(crate) fn follow(thread: u32) {
    SIBLING.store(thread, SeqCst);
}

/// No visit is under way when this returns, and none begins: a filter comes that may kill for the calls.
pub(crate) fn forbid() {
    FORBIDDEN.store(true, SeqCst);
    while VISITOR.load(SeqCst) != 0 || RESCUERS.load(SeqCst) != 0 {
        sys::sleep_ns(50_000);
    }
}

/// Seccomp filters of the reclaim thread. `None`: the kernel does not tell.
fn filters() -> Option<u32> {
    const NAME: &[u8] = b"\nSeccomp_filters:\t";
    let mut text = [0; 4096];
    let len = rustix::io::pread(STATUS.file()?, &mut text, 0).ok()?;
    let text = text.get(..len)?;
    let at = text.windows(NAME.len()).position(|name| name == NAME)?;
    let digits = text[at + NAME.len()..].iter();
    let digits = digits.take_while(|c| c.is_ascii_digit());
    Some(digits.fold(0, |number, c| number * 10 + u32::from(c - b'0')))
}

/// Whether a filter has come since the start (V3).
fn is_filtered() -> bool {
    filters().is_some_and(|filters| filters != FILTERS.load(Relaxed))
}

/// Takes the calling thread to `processor`, if it may go there and somewhere else.
pub(crate) fn begin(processor: u32) {
    if FORBIDDEN.load(Relaxed) || SIBLING.load(Relaxed) == 0 || is_filtered() {
        return;
    }
    VISITOR.store(sys::thread_id(), SeqCst);
    if FORBIDDEN.load(SeqCst) || !go(processor) {
        VISITOR.store(0, SeqCst);
    }
}

fn go(processor: u32) -> bool {
    let (Some(own), Some(home)) = (sys::processors(0), siblings()) else {
        return false;
    };
    if own != home {
        // Somebody has moved one of the two. If it was not this thread, it follows (V2).
        if own == self::home() {
            sys::set_processors(0, &home);
            remember(&home);
        }
        return false;
    }
    if !home.contains(processor) || home.count() < 2 {
        return false;
    }
    remember(&home);
    VISITED.store(processor, SeqCst);
    sys::pin(0, processor)
}

/// The calling thread goes elsewhere, if it has begun a visit.
pub(crate) fn end() {
    if VISITOR.load(Relaxed) == 0 {
        return;
    }
    if !is_filtered() {
        let mut home = home();
        sys::set_processors(0, &home.without(VISITED.load(Relaxed)));
        // A cpuset that has changed leaves the same of both; who has moved the sibling meant this thread as well.
        for _ in 0..2 {
            sys::set_processors(0, &home);
            match siblings() {
                Some(theirs) if sys::processors(0) != Some(theirs) => home = theirs,
                _ => break,
            }
        }
        remember(&home);
    }
    VISITOR.store(0, SeqCst);
}

fn siblings() -> Option<Processors> {
    sys::processors(SIBLING.load(Relaxed))
}

fn remember(home: &Processors) {
    for (word, home) in HOME.iter().zip(home.0) {
        word.store(home, Relaxed);
    }
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
    if visitor != 0 && !is_filtered() && sys::processors(visitor).is_some_and(held) {
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

    /// A thread that stands by, as the watchdog does, until the test is through.
    fn sibling() -> u32 {
        let (tell, told) = channel();
        thread::spawn(move || {
            tell.send(sys::thread_id()).expect("somebody listens");
            loop {
                thread::park();
            }
        });
        told.recv().expect("its number")
    }

    /// One test, since there is one visitor in a process.
    #[test]
    fn a_visitor_goes_there_and_comes_back_whatever_happens() {
        let visits = || {
            let home = now();
            let mut all = home.iter();
            let processor = all.next().expect("one");
            begin(processor);
            assert!(!is_under_way(), "the pager has not started");
            // SAFETY: no thread but this one knows of visits.
            unsafe { start() };
            begin(processor);
            assert!(!is_under_way(), "there is no sibling");
            let sibling = sibling();
            follow(sibling);
            let Some(other) = all.next() else {
                std::eprintln!("SKIPPED: one processor");
                begin(processor);
                assert!(!is_under_way(), "there is nowhere else");
                return;
            };
            goes_and_comes(home, processor);
            is_rescued(home, processor);
            goes_where_its_sibling_goes(home, sibling, (processor, other));
            stays_where_it_alone_is_put(home, (processor, other));
            waits_for_filters(sibling, processor);
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

    /// V2: `taskset -ap` in the middle of a visit, in either order, and between visits.
    fn goes_where_its_sibling_goes(home: Processors, sibling: u32, (here, other): (u32, u32)) {
        for to in [here, other].map(Processors::only) {
            for visitor_first in [true, false] {
                begin(here);
                assert!(is_under_way());
                let order = if visitor_first {
                    [0, sibling]
                } else {
                    [sibling, 0]
                };
                for thread in order {
                    assert!(sys::set_processors(thread, &to));
                }
                end();
                assert_eq!(now(), to);
                begin(here);
                assert!(!is_under_way(), "there is nowhere else");
                assert!(sys::set_processors(sibling, &home));
                begin(here);
                assert_eq!(now(), home, "it follows before the next visit");
                begin(here);
                assert!(is_under_way());
                end();
            }
        }
    }

    /// V2: between visits, which there are no more then.
    fn stays_where_it_alone_is_put(home: Processors, (here, other): (u32, u32)) {
        assert!(sys::set_processors(0, &Processors::only(other)));
        begin(here);
        assert!(!is_under_way());
        assert_eq!(now(), Processors::only(other));
        assert!(sys::set_processors(0, &home));
    }

    /// V3: a filter that allows everything.
    fn waits_for_filters(sibling: u32, processor: u32) {
        begin(processor);
        assert!(is_under_way());
        end();
        assert!(install_a_filter());
        begin(processor);
        assert!(!is_under_way(), "there is a filter more");
        // SAFETY: as before.
        unsafe { start() };
        follow(sibling);
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
