//! Fact: a page that `UFFDIO_MOVE` takes away while threads write to it carries every write that
//! was done, and no write goes to the old frame afterwards.
//!
//! The pager takes pages out of running programs without stopping them. (Copying the page and
//! dropping it with `MADV_DONTNEED` is known to lose writes; that is why it moves.)

use crate::common::{self, PAGE, Pages, Task};
use coldpress_uffd::{Features, Message};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const CYCLES: usize = 50_000;
/// Every so many cycles a writer has to meet the missing page.
const WAIT_EVERY: usize = 50;
/// Staging is dropped whenever this many pages of it are used.
const SLOTS: usize = 64;

/// Counts up words of a page, one a writer, until told to stop. Returns how often.
fn writer(page: Pages, word: usize, stop: Arc<AtomicBool>) -> Task<u64> {
    Task::start(move || {
        // SAFETY: a word of a page that stays mapped, used atomically by everybody.
        let counter = unsafe { &*page.pointer(0).cast::<AtomicU64>().add(word) };
        let mut increments = 0;
        while !stop.load(Relaxed) {
            // Not one locked instruction: a read, and a write that may come much later.
            counter.store(counter.load(Relaxed) + 1, Relaxed);
            increments += 1;
        }
        increments
    })
}

#[test]
fn no_increment_is_lost_in_fifty_thousand_moves() {
    let _begun = common::begin("a_move_loses_no_write");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let page = Pages::filled(1, 0);
    let staging = Pages::map(SLOTS);
    common::register(&uffd, page);
    common::register(&uffd, staging);
    let stop = Arc::new(AtomicBool::new(false));
    let writers = [0, 256].map(|word| writer(page, word, stop.clone()));

    let mut faults = 0;
    let mut messages = [Message::Unknown(0); 4];
    for cycle in 0..CYCLES {
        let slot = staging.page(cycle % SLOTS);
        assert_eq!(common::move_pages(&uffd, slot, page), common::all_moved(1));
        // Let the writers run into the missing page, surely now and then.
        match cycle % WAIT_EVERY {
            0 => common::await_unread(&uffd),
            n => (0..n * 8).for_each(|_| std::hint::spin_loop()),
        }
        faults += uffd.read(&mut messages).expect("reading");
        // SAFETY: the page was just moved to the slot.
        let copied = unsafe { uffd.copy(page.start, slot.pointer(0).cast(), PAGE) };
        assert_eq!(copied, Ok(PAGE));
        if cycle % SLOTS == SLOTS - 1 {
            common::unregister(&uffd, staging);
            staging
                .advise(libc::MADV_DONTNEED)
                .expect("dropping staging");
            common::register(&uffd, staging);
        }
    }
    stop.store(true, Relaxed);
    let done = writers.map(Task::finish);
    // SAFETY: the second writer's word of a mapped page.
    let second = unsafe { page.pointer(0).cast::<u64>().add(256).read_volatile() };
    assert_eq!([page.read(0), second], done, "increments were lost");
    // Else nothing was proved: writers must have met the moves.
    assert!(faults >= CYCLES / WAIT_EVERY, "only {faults} faults");
    assert!(done.iter().all(|&n| n > 1000), "{done:?}");
}
