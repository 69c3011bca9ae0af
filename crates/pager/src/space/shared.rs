//! Pages that a fork has left shared.
//!
//! A fork leaves each page of both processes shared, and the kernel moves no such page (EBUSY) until it is written to, also
//! when the other process has ended long since. Nobody writes to cold pages. So what a server held when it saved itself by
//! a child, or a shell when it made a subshell, stayed in place for good, whatever the budget.
//!
//! A page that no other process maps any more becomes this one's own when somebody pins it, if only for reading
//! (`process_vm_readv`): the kernel finds that nobody has it besides, and copies nothing. Reclaim does that with what it
//! was refused ([`Pager::unshare`]).
//!
//! * S1: only pages of which the page map says that no other process has them. Others would be copied, which takes memory
//!   instead of giving some. (A process may come to have it meanwhile: then it is a copy, as by the next write.)
//! * S2: nothing is written. Another thread may map a file there between the look and the pin, and faulting that in for
//!   writing would fill its holes and set its time.
//! * S3: once for each page and fork. What is refused after that is pinned, and waits as such pages do.
//! * S4: outside the gate, with no lock: the page may be missing by then, and a handler answers.

use crate::Pager;
use crate::machine::os::{Os, PopulatedPages};
use coldpress_engine::queues::standing::Queue;
use coldpress_uffd::PAGE_SIZE;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Runs of which it is remembered what was refused. Of more it is not: their pages are tried again after a time.
const RUNS: usize = 256;

/// What the kernel refused to move as shared or pinned, since reclaim looked.
pub(crate) struct Refused {
    runs: [Run; RUNS],
    count: AtomicUsize,
}

/// Up to 64 pages in a row.
struct Run {
    start: AtomicUsize,
    pages: AtomicU64,
}

impl Refused {
    pub(crate) const fn new() -> Self {
        Self {
            runs: [const {
                Run {
                    start: AtomicUsize::new(0),
                    pages: AtomicU64::new(0),
                }
            }; RUNS],
            count: AtomicUsize::new(0),
        }
    }

    /// The kernel has refused `pages`, counted from `start`. By the thread that takes them in later.
    pub(crate) fn note(&self, start: usize, pages: u64) {
        let count = self.count.load(Relaxed);
        if let Some(run) = self.runs.get(count).filter(|_| pages != 0) {
            run.start.store(start, Relaxed);
            run.pages.store(pages, Relaxed);
            self.count.store(count + 1, Release);
        }
    }

    /// What was noted, an address a page; none of it is noted any more.
    fn take(&self) -> impl Iterator<Item = usize> {
        let count = self.count.load(Acquire);
        self.count.store(0, Relaxed);
        self.runs[..count].iter().flat_map(|run| {
            let (start, pages) = (run.start.load(Relaxed), run.pages.load(Relaxed));
            let of = (0..64).filter(move |n| pages >> n & 1 != 0);
            of.map(move |n| start + n * PAGE_SIZE)
        })
    }
}

impl<O: Os> Pager<O> {
    /// Makes those pages this process's own that were refused in the last batch and that no other process has, and puts
    /// them where reclaim takes from first. How many.
    pub(crate) fn unshare(&self) -> u32 {
        let refused = self.host.refused.take();
        let Some(pagemap) = self.host.pagemap.get() else {
            return 0;
        };
        let fork = self.fork.number();
        let mut unshared = 0;
        for address in refused {
            let Some((segment, index)) = self.host.place_of(address) else {
                continue;
            };
            let window = self.host.windows.get(segment);
            if window.is_unshared(index, fork) || !pagemap.is_mapped_once(address) {
                continue;
            }
            window.set_unshared(index, fork);
            if O::pin(address) {
                let moved = self.engine.move_page(segment, index, Queue::DontNeed);
                unshared += u32::from(moved);
            }
        }
        unshared
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn what_was_refused_is_told_once_and_no_more_than_there_is_room_for() {
        let refused = Refused::new();
        refused.note(1 << 20, 0);
        refused.note(1 << 20, 1 << 63 | 0b101);
        let pages: Vec<_> = refused.take().collect();
        assert_eq!(pages, [0, 2, 63].map(|n| (1 << 20) + n * PAGE_SIZE));
        assert_eq!(refused.take().count(), 0);
        for run in 0..2 * RUNS {
            refused.note(run << 20, 1);
        }
        assert_eq!(refused.take().count(), RUNS);
    }
}
