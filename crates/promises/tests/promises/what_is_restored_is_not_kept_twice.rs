//! What was stored of pages that came back here and there goes back to the kernel: memory is never more than
//! without a pager, but for what the pager itself needs.

use coldpress_promises::{Managed, Workplace, skip};

#[test]
fn what_is_restored_is_not_kept_twice() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("kept-twice");
    let program = place.compile("restored_here_and_there");
    let managed = Managed::new(&place)
        .budget("128M")
        .option("--trigger", "critical");
    managed.survive(&program, ["53", "96", "128"]);
}
