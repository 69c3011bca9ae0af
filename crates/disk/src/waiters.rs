//! Threads that wait for a page which another thread restores or compresses, and lend that one their priority.
//!
//! A place has a number that rises each time those are woken who wait for it; places share some numbers. A thread
//! that waits reads its number under the VMO's lock, and waits until it is another.
//!
//! It waits at a priority-inheriting futex (futex(2), `FUTEX_LOCK_PI`), of which there is one for each worker. While
//! nobody waits for it such a futex is free, and a worker does not touch it: who begins to wait writes the worker's thread
//! into it as its owner. So the kernel runs the worker as urgently as the most urgent thread that waits, and a third one
//! of a priority between the two holds up neither. When the page is there the worker gives the futex up, to the first
//! that waits, who gives it to the next.
//!
//! * W1 A worker raises the number, and looks at its futex after. A thread that waits writes the worker's thread there, and
//!   looks at the number after. So one of them sees what the other did, and no thread waits for an owner that is done.
//! * W2 A futex that was taken, or found to be in vain, is given up before anything else is done: nobody waits with one in
//!   its hands, so there is no circle.

use coldpress_engine::Place;
use rustix::io::Errno;
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// Workers that there can be, that of the scanner included, and so contexts. The frames that are kept for storage are
/// enough for them (`frames.rs`).
pub(crate) const MOST: u16 = 12;

/// Numbers. A power of two.
const NUMBERS: usize = 256;

/// The part of a futex that names its owner (`FUTEX_TID_MASK`).
const OWNER: u32 = 0x3FFF_FFFF;

/// Between two looks, where the kernel cannot make a thread wait at a futex of this kind.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// What one worker is waited for at.
struct Restorer {
    /// The thread that works under this number now, or did last.
    thread: AtomicU32,
    /// 0, or who is waited for.
    futex: AtomicU32,
}

pub(crate) struct Waiters {
    wakes: [AtomicU32; NUMBERS],
    /// Threads that wait, or are about to.
    waiting: AtomicU32,
    restorers: [Restorer; MOST as usize],
}

impl Default for Waiters {
    fn default() -> Self {
        let restorer = || Restorer {
            thread: AtomicU32::new(0),
            futex: AtomicU32::new(0),
        };
        Self {
            wakes: [const { AtomicU32::new(0) }; NUMBERS],
            waiting: AtomicU32::new(0),
            restorers: std::array::from_fn(|_| restorer()),
        }
    }
}

/// The calling thread's number, as futexes name it.
fn this_thread() -> u32 {
    thread_local! {
        static NUMBER: u32 = rustix::thread::gettid().as_raw_pid().cast_unsigned();
    }
    NUMBER.with(|number| *number)
}

/// Gives up a futex that the calling thread owns, if it does.
fn give_up(futex: &AtomicU32) {
    let own = this_thread();
    if futex.load(SeqCst) & OWNER != own || futex.compare_exchange(own, 0, SeqCst, SeqCst).is_ok() {
        return;
    }
    // Threads wait in the kernel, or are about to, or have given it up for this one (`EPERM`).
    while futex.load(SeqCst) & OWNER == own {
        match futex::unlock_pi(futex, futex::Flags::PRIVATE) {
            Ok(()) | Err(Errno::PERM) => return,
            Err(_) => std::thread::yield_now(),
        }
    }
}

impl Waiters {
    fn number(&self, (segment, index): Place) -> &AtomicU32 {
        let mixed = (segment ^ index.rotate_left(16)).wrapping_mul(0x9E37_79B9);
        &self.wakes[mixed as usize >> 24 & (NUMBERS - 1)]
    }

    /// The calling thread works under this number from now on.
    pub(crate) fn works(&self, worker: u16) {
        self.restorers[usize::from(worker)]
            .thread
            .store(this_thread(), SeqCst);
    }

    /// How often those that wait for the place were woken.
    pub(crate) fn wakes(&self, place: Place) -> u32 {
        self.number(place).load(SeqCst)
    }

    /// What the calling thread, or another, did to the place is done.
    pub(crate) fn wake(&self, place: Place) {
        self.number(place).fetch_add(1, SeqCst);
        self.is_done();
    }

    /// The calling thread restores nothing now.
    pub(crate) fn is_done(&self) {
        if self.waiting.load(SeqCst) > 0 {
            for restorer in &self.restorers {
                give_up(&restorer.futex);
            }
        }
    }

    /// Waits until the number is no longer `seen`: for the thread that works as `worker`, with the more urgent priority of
    /// both.
    pub(crate) fn wait(&self, place: Place, worker: u16, seen: u32) {
        let restorer = &self.restorers[usize::from(worker)];
        self.waiting.fetch_add(1, SeqCst);
        while self.wakes(place) == seen {
            let owner = restorer.thread.load(SeqCst);
            let _ = restorer.futex.compare_exchange(0, owner, SeqCst, SeqCst);
            if self.wakes(place) != seen {
                // Whoever waits for it still writes it again.
                let _ = restorer.futex.compare_exchange(owner, 0, SeqCst, SeqCst);
                break;
            }
            match futex::lock_pi(&restorer.futex, futex::Flags::PRIVATE, None) {
                Ok(()) => give_up(&restorer.futex),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// Checks what must be so while nobody waits: for tests.
    #[cfg(test)]
    pub(crate) fn check_idle(&self) {
        assert_eq!(self.waiting.load(SeqCst), 0);
        for restorer in &self.restorers {
            assert_eq!(
                restorer.futex.load(SeqCst),
                0,
                "a futex is free while nobody waits"
            );
        }
    }
}
