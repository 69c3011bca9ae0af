//! After `MADV_DONTNEED` memory reads zeros, whatever was compressed of it; after `MADV_FREE` zeros or
//! the old page, nothing else.

use coldpress_promises::hazards::survive;

#[test]
fn madvised_memory_reads_zeros() {
    survive("madvise_zero");
}
