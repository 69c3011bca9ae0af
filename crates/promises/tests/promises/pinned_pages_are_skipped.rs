//! Pages that the kernel holds pinned (O_DIRECT in flight, io_uring fixed buffers) stay where they
//! are: `UFFDIO_MOVE` answers EBUSY, which is counted, and the data are right on both sides.

use coldpress_interface::statistics::Failure;
use coldpress_promises::hazards::survive;

#[test]
fn direct_transfers_are_right() {
    survive("direct_io");
}

/// Buffers that nobody pinned, moved by threads of the kernel.
#[test]
fn unregistered_buffers_of_io_uring_are_right() {
    survive("ring_cold");
}

#[test]
fn fixed_buffers_are_skipped() {
    let Some(statistics) = survive("fixed_buffers") else {
        return;
    };
    let busy = statistics.failed(Failure::MoveBusy);
    assert!(
        busy >= 1,
        "no pinned page was met: {}",
        statistics.summary()
    );
}
