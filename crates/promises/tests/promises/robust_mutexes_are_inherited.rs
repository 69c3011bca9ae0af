//! A robust mutex of a dead thread, or of a killed child, is inherited by the next owner: the kernel's
//! mark is not lost on an evicted page, nor when the mutex has moved with its memory.

use coldpress_promises::hazards::{survive, survive_started_by_another};

#[test]
fn robust_mutexes_are_inherited() {
    survive("robust_mutex");
}

/// Story: the pager forgot the mutexes while their memory moved, since nothing was mapped at the old place any more; and
/// what it took at the new place before it was told stayed away. One run in some hundred on a machine with nothing
/// else to do, nearly each of eight beside each other.
#[test]
fn robust_mutexes_move_with_their_memory() {
    std::thread::scope(|runs| {
        for _ in 0..6 {
            runs.spawn(|| survive("robust_mutex_moves"));
        }
    });
}

/// Story: a pager that waited before it started took no note of moves.
#[test]
fn robust_mutexes_that_moved_before_the_pager_has_started_are_inherited() {
    survive_started_by_another("robust_mutex_moves");
}
