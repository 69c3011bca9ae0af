//! A thread that removes, unmaps and moves memory while others fault beside it makes nobody wait
//! for ever: `UFFDIO_COPY` and `MOVE` answer EAGAIN until the event has been read.

use coldpress_promises::hazards::survive;

#[test]
fn removing_while_restoring() {
    survive("removing_while_restoring");
}
