//! Memory keeps its content where `mremap` takes it, and is zero where it is new.

use coldpress_promises::hazards::survive;

#[test]
fn mremap_carries_content() {
    survive("mremap_moves");
}
