//! A program with a limit of its address space or of its data gets what the limit leaves it, then ENOMEM;
//! what is compressed needs no more memory than the pager already has.

use coldpress_promises::hazards::survive;

#[test]
fn memory_limits_are_met_as_natively() {
    survive("memory_limits");
}
