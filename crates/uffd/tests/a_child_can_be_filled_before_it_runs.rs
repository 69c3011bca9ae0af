//! Fact: with EVENT_FORK, for which CAP_SYS_PTRACE is needed, whoever reads the userfaultfd hears of each fork before the
//! child runs, and can put content into the child. From the fork until its event is read nothing can be moved out of the
//! parent, nor copied into it: so what is missing in the child is what was away at the fork. Once the descriptor of the child
//! is closed the child's memory is ordinary.
//!
//! So the pager serves a `clone` by an instruction of the program's own where there is that capability
//! (`docs/adr/0003-fork.md`).

use crate::common::{self, Pages, Task, WELL};
use coldpress_uffd::{Errno, Features, Message, Userfaultfd};

fn features() -> Features {
    Features::PAGER.with(Features::EVENT_FORK)
}

#[test]
fn the_child_waits_until_its_parents_pager_has_read() {
    let _begun = common::begin("a_child_can_be_filled_before_it_runs");
    let Some(uffd) = common::open(features()) else {
        return;
    };
    let memory = Pages::filled(3, 70);
    let staging = Pages::map(2);
    common::register(&uffd, memory);
    common::register(&uffd, staging);
    let moved = common::move_pages(&uffd, staging.page(0), memory.page(1));
    assert_eq!(moved, common::all_moved(1));

    let forking = Task::start(move || {
        common::in_child(move || {
            assert!(memory.holds(0, 70));
            assert!(memory.holds(1, 71), "away in the parent");
            assert!(memory.holds(2, 72), "it was in place at the fork");
        })
    });
    common::await_unread(&uffd);
    // The fork is told and not read: neither the parent nor the child goes on, and nothing can be changed.
    assert!(forking.is_blocked());
    assert_eq!(common::copy(&uffd, memory, 1, 1), Err(Errno::AGAIN));
    let moved = common::move_pages(&uffd, staging.page(1), memory.page(2));
    assert_eq!(moved, common::refused(Errno::AGAIN));

    let Message::Fork { descriptor } = common::next(&uffd) else {
        panic!("another message came first");
    };
    // SAFETY: just read.
    let child = unsafe { Userfaultfd::of_child(descriptor) };
    // The child ends soon after what it waits for is there, so the other is tried first.
    let there = common::copy(&child, memory, 0, 1);
    assert_eq!(there, Err(Errno::EXIST), "the child has it by inheritance");
    common::copy(&child, memory, 1, 71).expect("into the child");
    drop(child);
    assert_eq!(forking.finish(), WELL);
    assert_eq!(memory.populated(), [0, 2], "in the parent it is still away");
}

#[test]
fn no_capability_no_event() {
    let _begun = common::begin("fork_events_need_a_capability");
    let ended = common::in_child(|| {
        let Ok(device) = std::fs::File::open("/dev/userfaultfd") else {
            common::skipped("no device to inherit; run as root");
            common::leave_child();
        };
        common::become_nobody();
        let handshake = |wanted| {
            let uffd = common::from_device(&device).expect("an inherited device");
            uffd.handshake(wanted).err()
        };
        assert_eq!(handshake(features()), Some(Errno::PERM));
        assert_eq!(handshake(Features::PAGER), None);
    });
    common::assert_well(ended);
}
