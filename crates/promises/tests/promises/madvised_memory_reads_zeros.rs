//! After `MADV_DONTNEED` memory reads zeros, whatever was compressed of it; after `MADV_FREE` zeros or
//! the old page, nothing else.

use coldpress_promises::hazards::survive;

#[test]
fn madvised_memory_reads_zeros() {
    survive("madvise_zero");
}

/// Story: the pager heard of guards after the system call, and put a page in place of one in between, which it had read
/// ahead. Where the guard was taken away again the memory held what it had held before. Found by the simulation.
#[test]
fn memory_that_was_guarded_reads_zeros() {
    survive("guards_among_scans");
}

/// The pager waited for ever for a page that the kernel had dropped while it was being compressed.
#[test]
fn memory_given_up_before_it_was_registered_holds_all_or_nothing() {
    survive("freed_lazily");
}
