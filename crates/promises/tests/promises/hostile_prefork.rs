//! What children cost: idle ones next to nothing, those that only end little more than natively.

use coldpress_promises::machine::MemoryGroup;
use coldpress_promises::{Managed, Workplace, process, skip};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The figure that is this word of a verdict.
fn figure(verdict: &str, word: usize) -> u64 {
    let figure = verdict.split_whitespace().nth(word).expect("a figure");
    figure
        .parse()
        .unwrap_or_else(|_| panic!("no number: {verdict}"))
}

fn natively(place: &Workplace, program: &Path, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.args(arguments);
    let outcome = process::run(place, command, Duration::from_secs(60));
    eprintln!("natively: {}", outcome.verdict().expect("a verdict"));
}

/// Story: each looked for pages every few milliseconds, and eight took up to eight tenths of a processor.
#[test]
fn idle_children_rest() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("prefork");
    let program = place.compile("hostile_prefork");
    natively(&place, &program, &["75", "16", "2", "0", "1"]);
    let cost = || {
        let managed = Managed::new(&place).budget("64M");
        let (outcome, _) = managed.run(&program, ["75", "256", "8", "3", "2"]);
        let verdict = outcome.verdict().expect("a verdict");
        eprintln!("managed: {verdict}");
        [1, 15].map(|word| figure(&verdict, word))
    };
    // Once more where something else had its processors.
    let first = cost();
    let [processor, wakes] = if is_little(first) { first } else { cost() };
    assert!(
        is_little([processor, wakes]),
        "{processor} per mille of a processor for eight idle children, which wake {wakes} times a second each"
    );
}

/// Parts of a thousand of a processor for eight children, and how often one wakes in a second. What a wake takes is the
/// machine's: 30 or 90 microseconds on one and another.
fn is_little([processor, wakes]: [u64; 2]) -> bool {
    processor < 100 && wakes < 150
}

/// What a child of `hostile_subshells` costs: page faults, voluntary switches of context and system calls.
///
/// They are counted, since their time is that of the machine: a child natively takes 330 or 680 microseconds on one
/// and the same, by where the scheduler puts it, while what we add stays what it is.
fn counts(verdict: &str) -> [i64; 3] {
    eprintln!("{verdict}");
    let words: Vec<&str> = verdict.split_whitespace().collect();
    [1, 3, 5].map(|at| words[at].parse().expect("a count"))
}

/// Story: 1,500 subshells took twenty times as long as natively.
#[test]
fn children_that_only_end_cost_little() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("subshells");
    let program = place.compile("hostile_subshells");
    let arguments = ["77", "24", "200"];
    let mut command = Command::new(&program);
    command.args(arguments);
    let outcome = process::run(&place, command, Duration::from_secs(60));
    let native = counts(&outcome.verdict().expect("a verdict"));
    let (outcome, _) = Managed::new(&place).budget("14M").run(&program, arguments);
    let managed = counts(&outcome.verdict().expect("a verdict"));
    let [faults, switches, calls] = [0, 1, 2].map(|at| managed[at] - native[at]);
    assert!(faults < 100, "{faults} page faults more than natively");
    assert!(switches < 20, "{switches} switches more than natively");
    if native[2] < 0 {
        skip::skipped("system calls: no tracepoints in /sys/kernel/tracing");
        return;
    }
    assert!(calls < 160, "{calls} system calls more than natively");
}

/// Story: a child that read what was away took a quarter of a second, with both processors idle: each of them.
#[test]
fn young_children_do_not_wait_for_what_nobody_does() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("readers");
    let program = place.compile("hostile_readers");
    let arguments = ["78", "24", "60", "2"];
    natively(&place, &program, &arguments);
    let managed = Managed::new(&place).budget("14M").within(120);
    let (outcome, statistics) = managed.run(&program, arguments);
    let statistics = statistics.expect("statistics");
    statistics.at_least("evictions", 1);
    // What the children wait for is most of what the run costs; it was left out, and the summary said 7 %.
    let slower = statistics.part("summary").real("estimated_slowdown");
    assert!(slower > 1.25, "{slower} times as long, it says");
    let switches = figure(&outcome.verdict().expect("a verdict"), 1);
    // More than 50 it is not seen to be; where each page waits for room, it is 500.
    assert!(switches < 250, "{switches} switches for 512 pages");
}

/// Story: what a program held at a fork stayed in place for good, although the child had ended long since.
#[test]
fn what_no_child_has_any_more_is_evicted() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("saves");
    let program = place.compile("hostile_saves");
    let arguments = ["79", "64", "26"];
    natively(&place, &program, &arguments);
    let managed = || Managed::new(&place).budget("24M").within(60);
    managed().survive(&program, arguments);
    match managed().as_nobody().with_device() {
        Ok(managed) => drop(managed.survive(&program, arguments)),
        Err(e) => skip::skipped(&format!("/dev/userfaultfd: {e}")),
    }
}

/// Story: children lost the processor that their parent had given them at once.
#[test]
fn children_stay_where_their_parent_puts_them() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("placed");
    let program = place.compile("hostile_placed");
    // What is away makes a pager, nothing that is away a thread that waits.
    for (mebibytes, budget) in [("24", "14M"), ("2", "64M")] {
        let arguments = ["80", mebibytes, "150"];
        natively(&place, &program, &arguments);
        let managed = Managed::new(&place).budget(budget);
        let (outcome, _) = managed.run(&program, arguments);
        assert!(outcome.verdict().is_some(), "{outcome}");
    }
}

/// Story: in a memory group each process had the limit as a budget of its own. Children that read what was evicted before
/// the fork, each into a copy of its own, were killed by the kernel; natively all of them share 100 MiB.
#[test]
fn children_share_the_limit_of_their_memory_group() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("group");
    let program = place.compile("hostile_group");
    let run = |limit: u64, budget, mebibytes, children, rounds| {
        let group = MemoryGroup::new(limit << 20)?;
        let managed = Managed::new(&place).budget(budget).within(60);
        let managed = managed.wrapped(group.enter());
        let (outcome, _) = managed
            .option("--cold-after", "500ms")
            .run(&program, ["81", mebibytes, children, rounds]);
        let peak = group.read("memory.max_usage_in_bytes") >> 20;
        let verdict = outcome.verdict();
        let seconds = outcome.wall.as_secs_f32();
        eprintln!("peak {peak} of {limit} MiB, {seconds:.1} s: {verdict:?}");
        assert!(verdict.is_some(), "{outcome}");
        Some(())
    };
    run(256, "1G", "100", "4", "2");
    // They would hold 800 MiB of copies, were those not compressed.
    run(256, "1G", "100", "8", "1");
    // Each holds little, and all together too much.
    run(128, "1G", "7", "30", "2");
    // What they share with their parent is their whole budget, so none of them can keep it.
    run(150, "20M", "60", "8", "2");
}
