//! Facts about `UFFDIO_UNREGISTER` of a part of a registered mapping:
//!
//! * who sleeps there wakes, and finds what the kernel gives: zeros; a fault that nobody has read is told no more;
//! * from then on nothing is told of it, neither touches nor changes, and COPY answers `ENOENT`, while all is told of its
//!   neighbours;
//! * it is not refused while an event is unread, and what was to be told before is told afterwards: the pages are dropped
//!   when that was read, although their memory is registered no longer;
//! * the part is a mapping of its own, and joins neighbours that are like it once its `MADV_DONTFORK` is taken back.
//!
//! So the pager may unregister memory of which nothing is away at any time, and then has to bear an event about memory that
//! is not registered: what it tells will be dropped must not be taken for content.

use crate::common::{self, PAGE, Pages, Task};
use coldpress_uffd::{Errno, Features, Message, Userfaultfd};

fn begin(name: &'static str) -> Option<(common::Begun, Userfaultfd)> {
    let begun = common::begin(name);
    Some((begun, common::open(Features::PAGER)?))
}

#[test]
fn sleepers_wake_and_find_zeros() {
    let Some((_begun, uffd)) = begin("sleepers_wake") else {
        return;
    };
    let memory = Pages::map(8);
    common::register(&uffd, memory);
    let read = Task::start(move || memory.read(2));
    let fault = common::next(&uffd);
    assert!(matches!(fault, Message::Fault { .. }), "{fault:?}");
    let unread = Task::start(move || memory.read(3));
    common::await_unread(&uffd);
    common::unregister(&uffd, memory.part(2, 2));
    assert_eq!(read.finish(), 0);
    assert_eq!(unread.finish(), 0);
    assert!(common::is_silent(&uffd), "a fault that is over was told");
}

#[test]
fn nothing_is_told_of_it_and_all_of_its_neighbours() {
    let Some((_begun, uffd)) = begin("nothing_is_told") else {
        return;
    };
    let memory = Pages::map(8);
    common::register(&uffd, memory);
    let part = memory.part(2, 4);
    common::unregister(&uffd, part);
    for n in 0..4 {
        assert_eq!(part.read(n), 0, "the kernel answers");
    }
    assert_eq!(part.advise(libc::MADV_DONTNEED), Ok(0));
    assert_eq!(
        common::copy(&uffd, memory, 3, 7),
        Err(Errno::NOENT),
        "nothing is put in place there"
    );
    assert!(common::is_silent(&uffd));
    for n in [1, 6] {
        let reader = Task::start(move || memory.read(n));
        let fault = common::next(&uffd);
        assert!(matches!(fault, Message::Fault { .. }), "{fault:?}");
        common::copy(&uffd, memory, n, 7).expect("a neighbour");
        reader.finish();
    }
    // Anew, and all is as before.
    common::register(&uffd, memory);
    let reader = Task::start(move || memory.read(4));
    let fault = common::next(&uffd);
    assert!(matches!(fault, Message::Fault { .. }), "{fault:?}");
    uffd.zero(memory.page(4).range()).expect("answering");
    assert_eq!(reader.finish(), 0);
}

#[test]
fn what_arose_before_is_told_afterwards() {
    let Some((_begun, uffd)) = begin("told_afterwards") else {
        return;
    };
    let memory = Pages::filled(8, 70);
    common::register(&uffd, memory);
    let part = memory.part(2, 4);
    let task = Task::start(move || part.advise(libc::MADV_DONTNEED));
    common::await_unread(&uffd);
    common::unregister(&uffd, part);
    assert!(task.is_blocked(), "its event was not read");
    assert_eq!(
        uffd.is_registered(memory.part(0, 2).range()),
        Err(Errno::AGAIN),
        "it can be seen that something is to be told"
    );
    assert_eq!(part.populated(), [0, 1, 2, 3]);
    assert_eq!(common::next(&uffd), Message::Remove(part.range()));
    assert_eq!(task.finish(), Ok(0));
    assert_eq!(part.populated(), [], "dropped when that was read");
    assert_eq!(part.read(0), 0);
    assert!(common::is_silent(&uffd));
}

/// What lies behind the part that is cut out is dropped as well, which earlier kernels leave out.
#[test]
fn madvise_goes_on_behind_a_split() {
    let Some((_begun, uffd)) = begin("behind_a_split") else {
        return;
    };
    if !coldpress_uffd::madvise_outlasts_splits() {
        common::skipped("before Linux 6.17 madvise stops at a mapping that was split meanwhile");
        return;
    }
    let memory = Pages::filled(8, 70);
    common::register(&uffd, memory);
    let task = Task::start(move || memory.advise(libc::MADV_DONTNEED));
    common::await_unread(&uffd);
    common::unregister(&uffd, memory.part(2, 2));
    while !task.is_done() {
        if uffd.wait(Some(1_000_000)) {
            assert!(matches!(common::next(&uffd), Message::Remove(_)));
        }
    }
    assert_eq!(task.finish(), Ok(0));
    assert_eq!(memory.populated(), [], "all of it is dropped");
}

fn mappings_of(memory: Pages) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    let start = |line: &str| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    let (first, end) = (memory.start, memory.start + memory.count * PAGE);
    let starts = maps.lines().map(start);
    starts.filter(|at| (first..end).contains(at)).count()
}

#[test]
fn mappings_are_split_and_joined() {
    let Some((_begun, uffd)) = begin("split_and_joined") else {
        return;
    };
    let memory = Pages::map(8);
    assert_eq!(mappings_of(memory), 1);
    let part = memory.part(2, 4);
    common::register(&uffd, part);
    assert_eq!(part.advise(libc::MADV_DONTFORK), Ok(0));
    assert_eq!(mappings_of(memory), 3);
    common::unregister(&uffd, part);
    assert_eq!(mappings_of(memory), 3, "they still differ");
    assert_eq!(part.advise(libc::MADV_DOFORK), Ok(0));
    assert_eq!(mappings_of(memory), 1);
    common::register(&uffd, memory);
    assert_eq!(mappings_of(memory), 1);
    common::unregister(&uffd, part);
    assert_eq!(mappings_of(memory), 3);
}
