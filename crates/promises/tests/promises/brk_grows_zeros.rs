//! A heap that shrinks and grows by `brk` reads zeros where it grew and keeps what stayed.

use coldpress_promises::hazards::survive;

#[test]
fn brk_grows_zeros() {
    survive("brk_moves");
}
