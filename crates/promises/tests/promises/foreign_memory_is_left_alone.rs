//! Huge pages, shared memory and private file pages are not the pager's.

use coldpress_promises::hazards::survive;
use coldpress_promises::machine::HugePages;
use coldpress_promises::skip;

#[test]
fn shared_and_file_backed_memory() {
    survive("shared_and_file");
}

#[test]
fn huge_pages() {
    if skip::root_or_skip() {
        let _reserved = HugePages::reserve();
        survive("hugetlb");
    }
}
