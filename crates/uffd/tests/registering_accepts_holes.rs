//! Fact: `UFFDIO_REGISTER` accepts a range of which only a part is mapped, and what is mapped
//! into the hole afterwards is *not* registered. `UFFDIO_CONTINUE` on anonymous memory tells the
//! two apart and changes nothing: EINVAL in one registered mapping, ENOENT elsewhere.
//!
//! The pager registers by mappings read a moment ago. If it took such a hole for registered, it
//! would move pages out of memory whose touches nobody answers: they would read as zeros.

use crate::common::{self, Pages};
use coldpress_uffd::Features;

#[test]
fn what_fills_a_hole_is_not_registered_and_the_probe_tells() {
    let _begun = common::begin("registering_accepts_holes");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(8, 3);
    let hole = memory.part(2, 3);
    hole.unmap();
    common::try_register(&uffd, memory).expect("a range with a hole is accepted");
    hole.map_over();
    hole.fill(0, 5);
    assert_eq!(uffd.is_registered(memory.part(0, 2).range()), Ok(true));
    assert_eq!(uffd.is_registered(hole.range()), Ok(false), "the hole");
    assert_eq!(uffd.is_registered(hole.part(0, 1).range()), Ok(false));
    assert_eq!(uffd.is_registered(memory.range()), Ok(false), "across both");
    assert_eq!(uffd.is_registered(memory.part(5, 3).range()), Ok(true));
    assert!(
        memory.holds(0, 3) && memory.holds(7, 10),
        "the probe changes nothing"
    );
    assert!(hole.holds(0, 5) && hole.populated() == [0], "nor there");
}

#[test]
fn missing_pages_stay_missing_under_the_probe() {
    let _begun = common::begin("registering_accepts_holes");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::map(4);
    common::register(&uffd, memory);
    assert_eq!(uffd.is_registered(memory.range()), Ok(true));
    assert!(memory.populated().is_empty());
}
