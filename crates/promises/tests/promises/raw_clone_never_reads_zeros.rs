//! A raw `clone` passes every libc hook: its child may be refused (killed) but never sees zeros where
//! data were.

use coldpress_promises::hazards::survive;

#[test]
fn raw_clone_never_reads_zeros() {
    survive("raw_clone");
}
