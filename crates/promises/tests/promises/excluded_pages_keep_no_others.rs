//! What is never evicted keeps no page beside it in place.

use coldpress_promises::hazards::survive;

#[test]
fn excluded_pages_keep_no_others() {
    survive("beside_excluded");
}
