//! The plain case, by budget alone: memory larger than the budget is written, grows cold and reads
//! back, by the program and by the kernel in its system calls.

use coldpress_promises::hazards::{named, survive};
use coldpress_promises::{Managed, Workplace, skip};

#[test]
fn cold_memory_reads_back() {
    let Some(statistics) = survive("cold_reread") else {
        return;
    };
    statistics.at_least("decompressions", 1000);
    let critical = statistics.get("critical_compressions");
    eprintln!("{critical} compressions above the budget");
    assert!(statistics.get("pressure_compressions") + critical >= 1000);
}

/// What cannot be reached slows reclaim down: it does not stop the program. (Of this one 12 MiB are locked, or
/// only readable.)
#[test]
fn a_budget_that_cannot_be_reached() {
    if !skip::root_or_skip() {
        return;
    }
    let hazard = named("locked_and_read_only");
    let place = Workplace::new("unreachable");
    let program = place.compile(hazard.program);
    let managed = Managed::new(&place).budget("8M");
    if let Some(statistics) = managed.survive(&program, hazard.arguments) {
        statistics.at_least("budget_misses", 10);
    }
}
