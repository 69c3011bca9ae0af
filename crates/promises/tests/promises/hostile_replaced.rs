//! Memory that a segment of shared memory replaces is gone.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::process::Command;
use std::time::Duration;

/// Story: `shmat` with `SHM_REMAP` unmaps without an event. The pager went on believing that the place was
/// registered and held what it had taken out there. Fresh memory, mapped there after the segment had gone, held
/// old content or lost its own: 133 to 512 of 4,096 pages were wrong, in six of six runs.
fn replaced<'a>(place: &'a Workplace, managed: impl Fn() -> Managed<'a>) {
    let program = place.compile("hostile_replaced");
    for how in ["call", "number"] {
        let mut natively = Command::new(&program);
        natively.args(["1", how]);
        let native = process::run(place, natively, Duration::from_secs(60));
        if native.verdict().is_none() {
            continue;
        }
        managed().chaos().survive(&program, ["1", how]);
        managed().survive(&program, ["2", how]);
    }
}

#[test]
fn memory_that_a_segment_replaces_is_gone() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("replaced");
    replaced(&place, || Managed::new(&place));
    replaced(&place, || Managed::new(&place).raw_clones());
}

#[test]
fn and_an_ordinary_users() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("replaced-nobody");
    let managed = || Managed::new(&place).as_nobody();
    replaced(&place, || managed().with_device().expect("the device"));
}
