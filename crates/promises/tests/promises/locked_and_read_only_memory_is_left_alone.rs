//! Locked memory is resident at every look; memory that is only readable keeps its content.

use coldpress_promises::hazards::{self, survive};
use coldpress_promises::machine::MemoryGroup;
use coldpress_promises::{Workplace, skip};

#[test]
fn locked_and_read_only_memory_is_left_alone() {
    survive("locked_and_read_only");
}

/// Story: `mlockall` backed the pager's whole reservation, which is larger than the machine's memory, and the
/// program was OOM-killed. In a memory group, so that it would be alone with that.
#[test]
fn mlockall_locks_the_programs_memory() {
    if !skip::root_or_skip() {
        return;
    }
    let Some(group) = MemoryGroup::new(512 << 20) else {
        return;
    };
    let hazard = hazards::named("locked_all");
    let place = Workplace::new(hazard.name);
    let program = place.compile(hazard.program);
    let managed = hazard.managed(&place).wrapped(group.enter());
    let statistics = managed.survive(&program, hazard.arguments);
    if let Some(statistics) = statistics {
        statistics.at_least("decompressions", 1000);
    }
}

/// Story: an `mlockall` that was refused unlocked what had been locked before.
#[test]
fn an_mlockall_that_is_refused_changes_nothing() {
    survive("locked_refused");
}
