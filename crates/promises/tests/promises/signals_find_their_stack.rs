//! Signals at 1 kHz run on an alternate stack in the program's heap while pages come and go.

use coldpress_promises::hazards::survive;

#[test]
fn signals_find_their_stack() {
    survive("signals");
}
