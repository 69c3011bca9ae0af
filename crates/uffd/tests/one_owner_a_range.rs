//! Fact: memory that one userfaultfd has registered is refused to another (EBUSY), in whole and
//! in part; registering it again with the same one changes nothing. Content stays and no event is
//! raised. A range where nothing at all is mapped is EINVAL, but one with holes is *accepted*: what is
//! mapped in it is registered.
//!
//! Programs that use a userfaultfd themselves keep their memory; the pager learns of it by the
//! error. Its own ranges it may register again, overlapping as they come. That registering went
//! well does not mean that all of the range is there.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Errno, Features};

#[test]
fn a_second_owner_is_refused() {
    let _begun = common::begin("one_owner_a_range");
    let (Some(pager), Some(program)) =
        (common::open(Features::PAGER), common::open(Features::PAGER))
    else {
        return;
    };
    let memory = Pages::filled(4, 70);
    common::register(&program, memory.part(1, 2));
    assert_eq!(
        common::try_register(&pager, memory.page(1)),
        Err(Errno::BUSY)
    );
    assert_eq!(common::try_register(&pager, memory), Err(Errno::BUSY));
    assert_eq!(common::try_register(&pager, memory.page(0)), Ok(()));
    assert_eq!(common::try_register(&program, memory.part(2, 2)), Ok(()));
    assert!((0..4).all(|n| memory.holds(n, 70 + n as u64)));
    assert!(common::is_silent(&pager) && common::is_silent(&program));

    let nowhere = Pages::map(1);
    nowhere.unmap();
    assert_eq!(common::try_register(&pager, nowhere), Err(Errno::INVAL));
}

#[test]
fn holes_are_passed_over() {
    let _begun = common::begin("registering_over_holes");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    for hole in [0, 2, 3] {
        let memory = Pages::map(4);
        memory.page(hole).unmap();
        assert_eq!(
            common::try_register(&uffd, memory),
            Ok(()),
            "hole at {hole}"
        );
        memory.page(hole).map_again();
        assert_eq!(memory.read(hole), 0, "the hole is not registered");
        let reader = Task::start(move || memory.read(1));
        common::next(&uffd);
        common::copy(&uffd, memory, 1, 7).expect("answering");
        assert_eq!(reader.finish(), 7, "what was there is registered");
    }
}
