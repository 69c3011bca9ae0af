//! Memory keeps its content where `mremap` takes it, and is zero where it is new.

use coldpress_promises::hazards::{survive, survive_started_by_another};
use coldpress_promises::{Managed, Workplace, skip};

#[test]
fn mremap_carries_content() {
    survive("mremap_moves");
}

#[test]
fn memory_moves_while_its_pages_are_put_back() {
    survive("moved_while_put_back");
}

/// Story: memory that had been managed before it was locked hung for ever when it was moved and made longer.
#[test]
fn locked_memory_moves_and_grows() {
    survive("locked_grown");
}

#[test]
fn it_does_in_a_program_that_another_has_started() {
    survive_started_by_another("locked_grown");
}

/// What had grown in place was registered without the pager having noted it, and its beginning was unregistered: the
/// kernel moved the one and stopped at the other.
#[test]
fn memory_that_was_unregistered_moves_whole() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("moved_when_unregistered");
    let program = place.compile("moved_when_unregistered");
    for [first, end] in [["300", "900"], ["200", "700"]] {
        let managed = Managed::new(&place).budget("64M");
        managed
            .option("--cold-after", "100ms")
            .survive(&program, ["64", "3", first, end]);
    }
}
