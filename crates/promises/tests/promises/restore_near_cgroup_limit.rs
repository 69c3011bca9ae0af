//! In a memory group whose limit is a little above the budget, a program whose content is larger than
//! the limit lives: a restore past the limit would get it OOM-killed, not refused. So do two programs that fit the limit
//! of their own groups each, and not that of the group around both.
//!
//! Needs root and memory groups of cgroup v1.

use coldpress_promises::machine::MemoryGroup;
use coldpress_promises::{Managed, Statistics, Workplace, hazards, skip};
use std::thread;
use std::time::Duration;

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

/// Story: of the groups that a program is in, only the one with the least limit was watched. Two programs that each fit
/// theirs filled the one around both, and the kernel killed one.
#[test]
fn the_group_around_is_kept_too() {
    if !skip::root_or_skip() {
        return;
    }
    let Some(outer) = MemoryGroup::new(160 << 20) else {
        return;
    };
    let place = Workplace::new("group_around");
    let program = place.compile("larger_than_limit");
    let survives = |seed: &str| {
        let inner = outer.inner(seed, 128 << 20);
        let managed = Managed::new(&place).budget("1G").within(120);
        let managed = managed.wrapped(inner.enter());
        // At a pace at which the other one is seen to grow as well.
        let arguments = [seed, "104", "2", "10"];
        managed.survive(&program, arguments).expect("no skip")
    };
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| survives("82"));
        let other = survives("83");
        (one.join().expect("it survives"), other)
    });
    let peak = outer.read("memory.max_usage_in_bytes") >> 20;
    eprintln!("group: peak {peak} of 160 MiB");
    for statistics in [one, other] {
        statistics.at_least("decompressions", 1000);
    }
}

/// Story: a budget that came from the group's limit was that of the start for good. A program of a group that was limited
/// later had none, and was killed; one whose group was given more stayed as slow as before.
#[test]
fn the_budget_follows_the_limit() {
    if !skip::root_or_skip() {
        return;
    }
    const MIB: u64 = 1 << 20;
    let Some(group) = MemoryGroup::unlimited() else {
        return;
    };
    let statistics = while_it_fills(&group, Duration::ZERO, 80 * MIB);
    assert_eq!(statistics.get("budget_bytes"), 75 * MIB);
    statistics.at_least("decompressions", 1000);

    let group = MemoryGroup::new(44 * MIB).expect("as the one before");
    // It would fill 25 MiB by then.
    let statistics = while_it_fills(&group, Duration::from_millis(500), 512 * MIB);
    assert_eq!(statistics.get("budget_bytes"), 480 * MIB);
}

/// Runs a program of 104 MiB without a budget of its own, and limits its group so long after it has filled 40 MiB.
fn while_it_fills(group: &MemoryGroup, after: Duration, limit_bytes: u64) -> Statistics {
    let place = Workplace::new("limited_later");
    let program = place.compile("larger_than_limit");
    let managed = Managed::new(&place).budget("none").within(120);
    let managed = managed.wrapped(group.enter());
    thread::scope(|scope| {
        let program = scope.spawn(|| {
            let arguments = ["84", "104", "2", "20"];
            managed.survive(&program, arguments).expect("no skip")
        });
        while group.read("memory.usage_in_bytes") < 40 << 20 && !program.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(after);
        group.limit(limit_bytes);
        program.join().expect("it survives")
    })
}
