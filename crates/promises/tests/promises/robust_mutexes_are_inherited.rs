//! A robust mutex of a dead thread, or of a killed child, is inherited by the next owner: the kernel's
//! mark is not lost on an evicted page.

use coldpress_promises::hazards::survive;

#[test]
fn robust_mutexes_are_inherited() {
    survive("robust_mutex");
}
