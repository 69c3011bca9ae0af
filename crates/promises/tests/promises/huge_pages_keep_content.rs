//! Transparent huge pages: memory that asks for them is taken out in parts, put together while parts of it are
//! away, split, and inherited; its content is right.

use coldpress_promises::hazards::survive;

#[test]
fn huge_pages_keep_content() {
    survive("huge_pages");
}

/// Nothing but huge pages with a reference was met by a test before: they stay, and hold nobody up.
#[test]
fn huge_pages_that_something_refers_to_hold_nobody_up() {
    survive("huge_referenced");
}
