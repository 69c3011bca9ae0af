//! A program that installs a seccomp filter goes on as natively, with all its memory: managed where the pager can
//! live with the filter, and without compression, which is said, where it cannot.

use coldpress_promises::{Managed, Workplace, managed, process, skip};
use std::process::Command;
use std::time::Duration;

/// Filters, and whether the program is managed under them.
const FILTERS: [(&str, bool); 17] = [
    ("listed", true),
    ("early", true),
    ("early_unseen", true),
    ("busy", true),
    ("busy_unseen", true),
    ("bearable", true),
    ("killed", false),
    ("trapped", false),
    ("refused", false),
    ("child", false),
    ("vfork", true),
    ("wrappers", false),
    ("exec", false),
    ("exec_alone", true),
    ("strict", false),
    ("exit", true),
    ("listener", false),
];

fn all_go_on<'a>(place: &'a Workplace, managed: impl Fn() -> Managed<'a>) {
    let program = place.compile("hostile_seccomp");
    for (how, is_managed) in FILTERS {
        let mut natively = Command::new(&program);
        natively.args(["1", how]);
        let outcome = process::run(place, natively, Duration::from_secs(60));
        if outcome.verdict().is_none() {
            continue;
        }
        let (outcome, statistics) = managed().run(&program, ["1", how]);
        assert!(outcome.verdict().is_some(), "{how}: {outcome}");
        let statistics = statistics.expect("statistics");
        statistics.at_least("evictions", 1);
        eprintln!("{how}: {}\n{}", statistics.summary(), outcome.stderr);
        let says = "goes on without compression: it installs a seccomp filter";
        assert_eq!(
            outcome.stderr.contains(says),
            !is_managed,
            "{how}: {outcome}"
        );
    }
}

#[test]
fn programs_go_on_under_filters() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("seccomp");
    all_go_on(&place, || Managed::new(&place));
}

#[test]
fn an_ordinary_users_programs_go_on_under_filters() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("seccomp-nobody");
    all_go_on(&place, || {
        let managed = Managed::new(&place).as_nobody();
        managed.with_device().expect("the device")
    });
}

/// The pager of a program that another one has started waits at first. A filter that the child of a `vfork` installs, and
/// one that the kernel refuses, change nothing: pages are taken later, which the program insists on.
#[test]
fn filters_that_are_not_the_programs_do_not_end_waiting() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("seccomp-waiting");
    let program = place.compile("hostile_seccomp");
    let program = program.to_str().expect("a path in UTF-8");
    for how in ["early_vfork", "early_invalid"] {
        let arguments = ["-c", "\"$@\"; exit $?", "sh", program, "1", how];
        let (outcome, _) = Managed::new(&place).run("/bin/sh".as_ref(), arguments);
        assert!(outcome.verdict().is_some(), "{how}: {outcome}");
    }
}

/// systemd's `@system-service` lacks `mincore`: the program was killed by SIGSYS once the pager called it.
#[test]
fn a_filter_that_was_inherited_is_refused_by_name() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("seccomp-inherited");
    let under = place.compile("under_filter");
    let run = |answer: &str, call: i64| {
        let mut command = Command::new(&under);
        command.args([answer, &call.to_string()]);
        command.arg(managed::binary()).args(["run", "--", "true"]);
        process::run(&place, command, Duration::from_secs(60))
    };
    for answer in ["kill", "refuse"] {
        let outcome = run(answer, libc::SYS_swapon);
        assert_eq!(outcome.status.code(), Some(0), "{answer}: {outcome}");
        for call in [libc::SYS_mincore, libc::SYS_madvise, libc::SYS_ppoll] {
            let outcome = run(answer, call);
            assert_eq!(
                outcome.status.code(),
                Some(125),
                "{answer} {call}: {outcome}"
            );
            let says = outcome.stderr.contains("a seccomp filter");
            assert!(says, "{answer} {call}: {outcome}");
        }
    }
    // The pager makes less of what it only wants.
    let outcome = run("refuse", libc::SYS_lseek);
    assert_eq!(outcome.status.code(), Some(0), "{outcome}");
}
