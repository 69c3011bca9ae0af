//! Bytes spliced into a pipe are read as they were spliced, although their pages were evicted,
//! restored and their frames used again meanwhile.

use coldpress_promises::hazards::survive;

#[test]
fn vmsplice_pages_keep_their_bytes() {
    survive("vmsplice_bytes");
}
