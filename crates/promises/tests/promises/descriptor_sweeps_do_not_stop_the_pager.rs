//! A program that closes every descriptor it does not know, or puts others in their place, is still
//! served: with the last userfaultfd closed its readers would get zeros.

use coldpress_promises::hazards::survive;

#[test]
fn descriptor_sweeps_do_not_stop_the_pager() {
    let Some(statistics) = survive("fd_sweep") else {
        return;
    };
    statistics.at_least("decompressions", 1000);
}
