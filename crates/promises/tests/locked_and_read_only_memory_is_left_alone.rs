//! Locked memory is resident at every look; memory that is only readable keeps its content.

use coldpress_promises::hazards::survive;

#[test]
fn locked_and_read_only_memory_is_left_alone() {
    survive("locked_and_read_only");
}
