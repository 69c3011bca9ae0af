//! A thread that removes, unmaps and moves memory while others fault beside it makes nobody wait
//! for ever: `UFFDIO_COPY` and `MOVE` answer EAGAIN until the event has been read.

use coldpress_interface::statistics::Failure;
use coldpress_promises::hazards::survive;

#[test]
fn removing_while_restoring() {
    let Some(statistics) = survive("removing_while_restoring") else {
        return;
    };
    for failure in [Failure::MoveAgain, Failure::CopyAgain] {
        assert!(
            statistics.failed(failure) >= 1,
            "nobody was told {failure:?}: {}",
            statistics.summary()
        );
    }
}
