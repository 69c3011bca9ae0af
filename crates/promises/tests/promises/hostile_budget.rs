//! What `coldpress run` says of a budget is true. A budget of 40 MiB under which a program held 82 was not
//! mentioned; one that could not be kept made a program thirty times slower without a word; and a peak from before
//! `coldpress set` was reported as a miss of what was set then.

use coldpress_promises::machine::MemoryGroup;
use coldpress_promises::managed::binary;
use coldpress_promises::{Managed, Workplace, process, skip};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const END: &str = "the program has done its work";

fn natively(place: &Workplace, program: &Path, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.args(arguments);
    let outcome = process::run(place, command, Duration::from_secs(90));
    assert!(outcome.verdict().is_some(), "natively: {outcome}");
}

fn out_of_reach(nobody: bool) {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("out-of-reach");
    let program = place.compile("hostile_budget");
    let arguments = ["1", "64", "noise", "7"];
    natively(&place, &program, &["1", "64", "noise", "1"]);
    let mut managed = Managed::new(&place).budget("24M");
    if nobody {
        managed = managed.as_nobody();
        managed = match managed.with_device() {
            Ok(managed) => managed,
            Err(error) => {
                eprintln!("SKIPPED: /dev/userfaultfd: {error}");
                return;
            }
        };
    }
    let (outcome, statistics) = managed.run(&program, arguments);
    assert!(outcome.verdict().is_some());
    let statistics = statistics.unwrap_or_else(|| panic!("no statistics: {outcome}"));
    statistics.at_least("failed_compressions", 1_000);
    statistics.at_least("most_above_budget_bytes", 32 << 20);
    let (before, after) = outcome
        .stderr
        .split_once(END)
        .unwrap_or_else(|| panic!("{outcome}"));
    let pid = statistics.get("pid");
    assert!(
        before.contains("budget of 24.0 MiB out of reach")
            && before.contains("does not compress: it holds ")
            && before.contains(&format!("coldpress set {pid} budget=")),
        "nothing was said while the program ran: {outcome}"
    );
    assert_eq!(before.matches("out of reach").count(), 1, "{outcome}");
    assert!(
        after.contains("BUDGET MISSED: above 24.0 MiB "),
        "{outcome}"
    );
}

#[test]
fn a_budget_out_of_reach_is_said_while_the_program_runs() {
    out_of_reach(false);
}

#[test]
fn and_to_an_ordinary_user() {
    out_of_reach(true);
}

/// Story: each fault waited for 20 ms for memory that nobody could give, so that the kernel killed the program after a
/// minute; natively it does at once. Nothing said that it had been killed.
#[test]
fn what_does_not_fit_its_group_ends_soon_and_is_told() {
    if !skip::root_or_skip() {
        return;
    }
    let Some(group) = MemoryGroup::new(100 << 20) else {
        return;
    };
    let place = Workplace::new("killed");
    let program = place.compile("hostile_budget");
    let mut killed = group.killed();
    let outcome = loop {
        let managed = Managed::new(&place).budget("none").within(30);
        let managed = managed.wrapped(group.enter());
        let (outcome, _) = managed.run(&program, ["1", "128", "noise", "1"]);
        assert_eq!(outcome.status.signal(), Some(9), "{outcome}");
        let before = std::mem::replace(&mut killed, group.killed());
        // The kernel passes over a process whose threads have all ended, though its memory is still being freed: it may
        // kill the command as well, which cannot tell of it then. That is seldom: not three times out of three.
        match killed - before {
            2 if killed < 6 => eprintln!("the kernel has killed the command, too: {outcome}"),
            _ => break outcome,
        }
    };
    let told = "KILLED by the kernel: its memory group of 100.0 MiB was full";
    assert!(outcome.stderr.contains(told), "{outcome}");
    assert!(outcome.stderr.contains("does not compress"), "{outcome}");
}

#[test]
fn a_peak_from_before_set_is_no_miss() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("set-lower");
    let program = place.compile("hostile_budget");
    let command = binary();
    let command = command.to_str().expect("a path of text");
    let arguments = ["1", "64", "text", "3", command, "budget=30M"];
    natively(&place, &program, &arguments);
    let (outcome, statistics) = Managed::new(&place).budget("200M").run(&program, arguments);
    assert!(outcome.verdict().is_some());
    let statistics = statistics.unwrap_or_else(|| panic!("no statistics: {outcome}"));
    assert_eq!(statistics.get("budget_bytes"), 30 << 20, "it was set");
    statistics.at_least("peak_total_bytes", 60 << 20);
    statistics.at_least("evictions", 5_000);
    // It was 34 MiB above. How long it takes to get there from 64 MiB is a matter of processors, which others use, too.
    let above = statistics.get("most_above_budget_bytes");
    assert!(above < 17 << 20, "{above}: {outcome}");
    let kept = outcome.stderr.contains("budget of 30.0 MiB kept");
    let missed = outcome.stderr.contains("BUDGET MISSED: above 30.0 MiB ");
    assert!(kept != missed, "{outcome}");
}

/// Records for fresh memory are made by the reclaim thread alone, ahead of the faults. It did so only between two
/// visits, one of which goes on for as long as a program fills memory as fast as it is taken: a quarter of all pages
/// got none, and was in place for good.
#[test]
fn no_page_goes_without_a_record() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("records");
    let program = place.compile("hostile_budget");
    let arguments = ["1", "2048", "text", "0"];
    let (outcome, statistics) = Managed::new(&place).budget("800M").run(&program, arguments);
    assert!(outcome.verdict().is_some(), "{outcome}");
    let statistics = statistics.unwrap_or_else(|| panic!("no statistics: {outcome}"));
    assert_eq!(statistics.get("no_metadata"), 0, "{outcome}");
    statistics.at_least("evictions", 250_000);
}

#[test]
fn a_program_that_ends_at_once_had_nothing_to_compress() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("nothing");
    let (outcome, _) = Managed::new(&place)
        .budget("none")
        .run(Path::new("/bin/true"), [""; 0]);
    assert!(
        outcome
            .stderr
            .contains("coldpress: true: nothing to compress: the program ended after "),
        "{outcome}"
    );
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
}
