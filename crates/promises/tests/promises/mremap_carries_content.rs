//! Memory keeps its content where `mremap` takes it, and is zero where it is new.

use coldpress_promises::hazards::survive;

#[test]
fn mremap_carries_content() {
    survive("mremap_moves");
}

#[test]
fn memory_moves_while_its_pages_are_put_back() {
    survive("moved_while_put_back");
}
