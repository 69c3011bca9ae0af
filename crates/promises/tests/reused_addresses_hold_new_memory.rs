//! An address that was unmapped or mapped over holds the new mapping's bytes. The pager's own mappings
//! must not land in a hole that the program made and is about to fill, either.

use coldpress_promises::hazards::survive;

#[test]
fn reused_addresses_hold_new_memory() {
    survive("unmap_reuse");
}
