//! Fact: while a REMOVE, an UNMAP or a REMAP event of a userfaultfd is unread, it answers EAGAIN
//! to MOVE, COPY, ZEROPAGE and POISON, wherever they aim; waking threads goes on. Once the event
//! was read and the thread that caused it has gone on, they work again.
//!
//! The pager's page lists are in step with the kernel only as long as no event is outstanding:
//! while someone is inside the gate events stay unread, and EAGAIN is what keeps content from
//! being taken from, or put into, memory that has become something else meanwhile.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Errno, Features, Message, Userfaultfd};

/// Has `cause` bring about an event in a thread of its own, and looks at what works before the
/// event is read and after.
fn assert_held_up<const N: usize>(
    cause: impl FnOnce(Pages) + Send + 'static,
    expected: impl Fn(Pages) -> [Message; N],
) {
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let victim = Pages::filled(2, 100);
    let source = Pages::filled(1, 7);
    let staging = Pages::map(1);
    let missing = Pages::map(3);
    for pages in [victim, source, staging, missing] {
        common::register(&uffd, pages);
    }
    let task = Task::start(move || cause(victim));
    common::await_unread(&uffd);

    // `mremap` causes two events: nothing works before both were read.
    for event in expected(victim) {
        held_up(&uffd, source, staging, missing);
        assert!(task.is_blocked(), "nobody has read the event");
        assert_eq!(common::next(&uffd), event);
    }
    task.finish();
    works(&uffd, source, staging, missing);
}

fn held_up(uffd: &Userfaultfd, source: Pages, staging: Pages, missing: Pages) {
    let again = Err(Errno::AGAIN);
    let moved = common::move_pages(uffd, staging, source);
    assert_eq!(moved, common::refused(Errno::AGAIN), "MOVE");
    assert_eq!(common::copy(uffd, missing, 0, 5), again, "COPY");
    assert_eq!(uffd.zero(missing.page(1).range()), again, "ZEROPAGE");
    assert_eq!(uffd.poison(missing.page(2).range()), again, "POISON");
    assert_eq!(uffd.wake(missing.range()), Ok(()), "WAKE");
}

fn works(uffd: &Userfaultfd, source: Pages, staging: Pages, missing: Pages) {
    assert_eq!(
        common::move_pages(uffd, staging, source),
        common::all_moved(1)
    );
    assert!(staging.holds(0, 7));
    assert_eq!(common::copy(uffd, missing, 0, 5), Ok(common::PAGE));
    assert_eq!(uffd.zero(missing.page(1).range()), Ok(common::PAGE));
    assert_eq!(uffd.poison(missing.page(2).range()), Ok(common::PAGE));
    assert!(missing.holds(0, 5) && missing.holds(1, 0));
}

#[test]
fn while_a_remove_is_unread() {
    let _begun = common::begin("unread_remove");
    assert_held_up(
        |victim| assert_eq!(victim.advise(libc::MADV_DONTNEED), Ok(0)),
        |victim| [Message::Remove(victim.range())],
    );
}

#[test]
fn while_an_unmap_is_unread() {
    let _begun = common::begin("unread_unmap");
    assert_held_up(Pages::unmap, |victim| [Message::Unmap(victim.range())]);
}

#[test]
fn while_a_remap_is_unread() {
    let _begun = common::begin("unread_remap");
    let to = Pages::map(2);
    assert_held_up(
        move |victim| assert_eq!(victim.remap(to, 0), Ok(())),
        move |victim| {
            let remap = Message::Remap {
                from: victim.start,
                to: to.start,
                len: victim.len(),
            };
            [remap, Message::Unmap(victim.range())]
        },
    );
}
