//! `MADV_DONTFORK` and `MADV_WIPEONFORK` ranges mean in the child what they mean natively, and keep
//! their content in the parent. Memory that is kept from children is compressed all the same.

use coldpress_promises::hazards::{survive, survive_started_by_another};

#[test]
fn fork_advice_keeps_its_meaning() {
    survive("fork_advice");
}

#[test]
fn memory_kept_from_children_is_compressed() {
    survive("fork_kept");
}

/// Story: the pager took no note of a move by which the old place stays mapped. A fork let children have what the program
/// had kept from them, and what they were to find wiped came back. Nor of one by which memory grew: of its new end they read
/// what the parent had.
#[test]
fn fork_advice_moves_with_its_memory() {
    survive("fork_advice_moves");
}

/// Story: a pager that waited before it started took no note of moves. What was to be wiped was read by children, and they
/// had what was to be kept from them.
#[test]
fn fork_advice_moves_with_its_memory_before_the_pager_has_started() {
    survive_started_by_another("fork_advice_moves");
}
