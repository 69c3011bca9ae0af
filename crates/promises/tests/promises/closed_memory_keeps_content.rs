//! `PROT_NONE` memory keeps its content and refuses access meanwhile, as natively.

use coldpress_promises::hazards::survive;

#[test]
fn closed_memory_keeps_content() {
    survive("mprotect_keeps");
}
