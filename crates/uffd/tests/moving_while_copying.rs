//! Fact: COPY and MOVE may answer ENOENT for a place that `mremap` has just moved away, although the
//! change is still to be told. The kernel asks "is the address space changing?", then waits for the
//! mapping, which `mremap` holds; finds none; and only where there is one it asks again. Whoever asks
//! anew after ENOENT is told EAGAIN, until the event was read.
//!
//! The pager takes ENOENT for "there is no such memory any more" and forgets the content: so it must
//! ask again first. What it was about to put back belongs at the new place.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Errno, Features, Message, Userfaultfd};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// So many populated pages that moving them, one by one, takes a while.
const POPULATED: usize = 16 << 10;
/// Tries, each with a page of its own.
const TRIES: usize = 300;

/// Calls `call` for a page of memory that is being moved, again and again, until it was once told
/// ENOENT. Each call has a page of its own, behind the first [`POPULATED`] pages, and the number of
/// the attempt. Only the first `populated` of all pages hold something.
fn told_gone(
    name: &'static str,
    populated: usize,
    call: impl Fn(&Userfaultfd, Pages, usize) -> Result<usize, Errno>,
) {
    let _begun = common::begin(name);
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let count = POPULATED + TRIES;
    // One is a page off, so that tables of pages cannot be moved as a whole.
    let (mut here, mut there) = (Pages::map(count), Pages::map(count + 1).part(1, count));
    here.part(0, populated)
        .advise(libc::MADV_POPULATE_WRITE)
        .expect("memory");
    common::register(&uffd, here);
    let longest_us = AtomicUsize::new(200);
    for attempt in 0..TRIES {
        let begin = std::sync::Arc::new(Barrier::new(2));
        let mover = Task::start({
            let begin = begin.clone();
            move || {
                begin.wait();
                let began = Instant::now();
                here.remap(there, 0).expect("mremap");
                began.elapsed()
            }
        });
        begin.wait();
        let delay = attempt * 7919 % longest_us.load(Relaxed);
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(delay as u64) {}
        let answer = call(&uffd, here.page(POPULATED + attempt), attempt);
        let again = uffd.is_registered(here.range());
        let event = common::next(&uffd);
        longest_us.fetch_max(began.elapsed().as_micros().min(20_000) as usize, Relaxed);
        assert!(matches!(event, Message::Remap { .. }), "{event:?}");
        assert_eq!(common::next(&uffd), Message::Unmap(here.range()));
        mover.finish();
        if answer == Err(Errno::NOENT) {
            assert_eq!(again, Err(Errno::AGAIN), "a change was to be told");
            return;
        }
        here.map_again();
        (here, there) = (there, here);
    }
    panic!("ENOENT was not answered in {TRIES} tries: may the pager rely on EAGAIN now?");
}

#[test]
fn copying_to_where_it_was() {
    // A page is copied to where none is.
    told_gone("copying_while_moving", POPULATED, |uffd, at, _| {
        common::copy(uffd, at, 0, 1)
    });
}

#[test]
fn taking_from_where_it_was() {
    let staging = Pages::map(TRIES);
    let registered = std::sync::Once::new();
    // A page is taken from where one is: a hole answers ENOENT, too, change or no change.
    told_gone(
        "taking_while_moving",
        POPULATED + TRIES,
        |uffd, at, attempt| {
            registered.call_once(|| common::register(uffd, staging));
            let moved = common::move_pages(uffd, staging.page(attempt), at);
            moved.stopped.map_or(Ok(moved.bytes), Err)
        },
    );
}
