//! Fact: registering a part of a mapping splits it, and `mremap` refuses a range that spans such
//! parts with EFAULT. Before Linux 6.17, and without MREMAP_FIXED, nothing has moved then. Since
//! 6.17 `mremap(MREMAP_FIXED)` moves several mappings with one call, but none that is registered
//! together with others: it answers EFAULT *after it has moved the unregistered parts before the
//! first registered one*. Once the range is registered whole, it moves.
//!
//! A program that moves its own mapping knows nothing of the split: a wrapper of `mremap` has to
//! register the range whole, so that the parts become one mapping again. With MREMAP_FIXED it must
//! do so before it calls the kernel; to try again after EFAULT is too late.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Features, Message, Userfaultfd};

const COUNT: usize = 8;
/// First page of the registered two, which lie at the start, in the middle, at the end.
const REGISTERED: [usize; 3] = [0, 3, 6];

fn partly_registered(uffd: &Userfaultfd, first: usize) -> Pages {
    let memory = Pages::filled(COUNT, 70);
    common::register(uffd, memory.part(first, 2));
    memory
}

/// Registers the range whole and moves it. The kernel's answer is yes.
fn unify_and_move(uffd: &Userfaultfd, memory: Pages) {
    common::register(uffd, memory);
    let to = Pages::map(COUNT);
    let task = Task::start(move || memory.remap(to, 0));
    let remap = Message::Remap {
        from: memory.start,
        to: to.start,
        len: memory.len(),
    };
    assert_eq!(common::next(uffd), remap, "one mapping, one event");
    assert_eq!(common::next(uffd), Message::Unmap(memory.range()));
    assert_eq!(task.finish(), Ok(()));
    assert!((0..COUNT).all(|n| to.holds(n, 70 + n as u64)));
}

#[test]
fn growing_is_refused_and_nothing_moves() {
    let _begun = common::begin("remapping_parts_anywhere");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    for first in REGISTERED {
        let memory = partly_registered(&uffd, first);
        // What `realloc` does.
        let (len, flags) = (2 * memory.len(), libc::MREMAP_MAYMOVE);
        // SAFETY: the test's own memory; it is not touched at its old place if it moves.
        let at = unsafe { libc::mremap(memory.pointer(0), memory.len(), len, flags) };
        assert_eq!(at, libc::MAP_FAILED);
        assert_eq!(common::errno(), libc::EFAULT);
        assert!((0..COUNT).all(|n| memory.holds(n, 70 + n as u64)));
        unify_and_move(&uffd, memory);
    }
}

#[test]
fn moving_to_a_given_place_may_stop_half_way() {
    let _begun = common::begin("remapping_parts_to_a_place");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    for first in REGISTERED {
        let memory = partly_registered(&uffd, first);
        let to = Pages::filled(COUNT, 40);
        assert_eq!(memory.remap(to, 0), Err(libc::EFAULT), "first {first}");
        // Since 6.17 the unregistered pages before the first registered one are gone by now.
        let moved = match common::kernel_is_at_least(6, 17) {
            true => first,
            false => 0,
        };
        assert!((moved..COUNT).all(|n| memory.holds(n, 70 + n as u64)));
        assert!((0..moved).all(|n| to.holds(n, 70 + n as u64)));
        for n in 0..moved {
            memory.page(n).map_again();
        }
    }
    assert!(common::is_silent(&uffd));
}

#[test]
fn a_range_registered_whole_moves() {
    let _begun = common::begin("remapping_what_was_unified");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    for first in REGISTERED {
        unify_and_move(&uffd, partly_registered(&uffd, first));
    }
}
