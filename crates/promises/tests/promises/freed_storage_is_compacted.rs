//! What programs free leaves holes in storage: they are closed while the program runs, and what
//! was kept reads back.

use coldpress_promises::hazards::survive;

#[test]
fn holes_are_closed_and_content_is_kept() {
    let Some(statistics) = survive("freed_holes") else {
        return;
    };
    statistics.at_least("decompressions", 1000);
    statistics.at_least("compaction_moves", 200);
    statistics.at_least("compaction_frames_freed", 50);
}

#[test]
fn content_is_kept_under_random_eviction() {
    if let Some(statistics) = survive("freed_holes_chaos") {
        statistics.at_least("decompressions", 1000);
    }
}
