//! In a memory group whose limit is a little above the budget, a program whose content is larger than
//! the limit lives: a restore past the limit would get it OOM-killed, not refused.
//!
//! Needs root and memory groups of cgroup v1.

use coldpress_promises::machine::MemoryGroup;
use coldpress_promises::{Workplace, hazards, skip};

/// The budget of the program is 32 MiB, its content 80 MiB.
const LIMIT_BYTES: u64 = 40 << 20;

#[test]
fn restore_near_cgroup_limit() {
    if !skip::root_or_skip() {
        return;
    }
    let Some(group) = MemoryGroup::new(LIMIT_BYTES) else {
        return;
    };
    let hazard = hazards::named("larger_than_limit");
    let place = Workplace::new(hazard.name);
    let program = place.compile(hazard.program);
    let statistics = hazard
        .managed(&place)
        .wrapped(group.enter())
        .survive(&program, hazard.arguments)
        .expect("the program never skips");
    let peak = group.read("memory.max_usage_in_bytes");
    eprintln!(
        "group: peak {} MiB of {} MiB, hit its limit {} times",
        peak >> 20,
        LIMIT_BYTES >> 20,
        group.read("memory.failcnt")
    );
    statistics.at_least("decompressions", 1000);
}
