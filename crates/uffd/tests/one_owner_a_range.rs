//! Fact: memory that one userfaultfd has registered is refused to another (EBUSY), in whole and
//! in part; to register it again with the same one changes nothing. Content stays and no event is
//! raised. What is not mapped is EINVAL.
//!
//! Programs that use a userfaultfd themselves keep their memory; the pager learns of it by the
//! error. Its own ranges it may register again, overlapping as they come.

mod common;

use coldpress_uffd::{Errno, Features};
use common::Pages;

#[test]
fn a_second_owner_is_refused() {
    let _begun = common::begin("one_owner_a_range");
    let (Some(pager), Some(program)) = (common::open(Features::PAGER), common::open(Features::PAGER))
    else {
        return;
    };
    let memory = Pages::filled(4, 70);
    common::register(&program, memory.part(1, 2));
    assert_eq!(common::try_register(&pager, memory.page(1)), Err(Errno::BUSY));
    assert_eq!(common::try_register(&pager, memory), Err(Errno::BUSY));
    assert_eq!(common::try_register(&pager, memory.page(0)), Ok(()));
    assert_eq!(common::try_register(&program, memory.part(2, 2)), Ok(()));
    assert!((0..4).all(|n| memory.holds(n, 70 + n as u64)));
    assert!(common::is_silent(&pager) && common::is_silent(&program));

    let nowhere = Pages::map(1);
    nowhere.unmap();
    assert_eq!(common::try_register(&pager, nowhere), Err(Errno::INVAL));
}
