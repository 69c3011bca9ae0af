//! `MADV_DONTFORK` and `MADV_WIPEONFORK` ranges mean in the child what they mean natively, and keep
//! their content in the parent.

use coldpress_promises::hazards::survive;

#[test]
fn fork_advice_keeps_its_meaning() {
    survive("fork_advice");
}
