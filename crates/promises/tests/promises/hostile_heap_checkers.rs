//! gperftools' heap checker and Valgrind look into a program's memory while nothing else runs: their verdicts under
//! `coldpress run` are those that they give natively, or the program is refused by name.
//!
//! Seen to fail: the heap checker stopped the pager's threads and read what was away (hang), and without them read
//! the pager's whole reservation (25 GiB); under Valgrind the pager's
//! first thread was refused (status 1), and with `--follow` waited for for ever.

use coldpress_promises::workplace::source;
use coldpress_promises::{Managed, Outcome, Workplace, process, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn compile(place: &Workplace, flags: &[&str]) -> Option<PathBuf> {
    let program = place.path("checked");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-pthread", "-w", "-o"])
        .arg(&program);
    gcc.arg(source("hostile_checked.c")).args(flags);
    if !gcc.status().is_ok_and(|status| status.success()) {
        skip::skipped(&format!(
            "gcc {flags:?} (apt-get install libgoogle-perftools-dev)"
        ));
        return None;
    }
    Some(program)
}

fn native(place: &Workplace, program: &str, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(program);
    command.args(arguments).env("HEAPCHECK", "normal");
    process::run(place, command, Duration::from_secs(120))
}

/// What the heap checker found.
fn leaks(outcome: &Outcome) -> Option<&str> {
    let mut lines = outcome.stderr.lines();
    let line = lines.find(|line| line.contains("_main_"))?;
    line.split(" (").next()?.split(" of ").next()
}

#[test]
fn gperftools_finds_what_it_finds_natively() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("heapcheck");
    let Some(program) = compile(&place, &["-Wl,--no-as-needed", "-ltcmalloc"]) else {
        return;
    };
    let shown = program.display().to_string();
    for (arguments, status) in [(&[][..], 0), (&["leak"][..], 1)] {
        let native = native(&place, &shown, arguments);
        assert!(leaks(&native).is_some(), "{native}");
        assert_eq!(native.status.code(), Some(status), "{native}");
        let managed = Managed::new(&place)
            .environment("HEAPCHECK", "normal")
            .budget("8M");
        let (outcome, statistics) = managed.run(&program, arguments);
        assert_eq!(
            outcome.status, native.status,
            "{outcome}\nnatively {native}"
        );
        assert_eq!(leaks(&outcome), leaks(&native), "{outcome}");
        statistics.expect("statistics").at_least("evictions", 500);
    }
}

/// Where the heap checker is no library, nobody can be told when it begins.
#[test]
fn a_heap_checker_that_may_be_linked_in_is_left_alone() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("heapcheck-not");
    let program = place.compile("larger_than_limit");
    let managed = Managed::new(&place).environment("HEAPCHECK", "normal");
    let (outcome, _) = managed.run(&program, ["7", "40", "1"]);
    assert!(outcome.stdout.contains("OK 40 MiB"), "{outcome}");
    assert_eq!(outcome.status.code(), Some(0), "{outcome}");
    assert!(
        outcome.stderr.contains("is not managed: HEAPCHECK is set"),
        "{outcome}"
    );
}

/// Valgrind's own status: 9 where it found an error.
fn valgrind(program: &Path) -> String {
    format!(
        "valgrind -q --leak-check=full --error-exitcode=9 {} leak",
        program.display()
    )
}

fn valgrind_or_skip(place: &Workplace) -> Option<PathBuf> {
    if !skip::root_or_skip() {
        return None;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip::skipped("no valgrind (apt-get install valgrind)");
        return None;
    }
    compile(place, &[])
}

#[test]
fn valgrind_is_refused_by_name() {
    let place = Workplace::new("valgrind");
    let Some(program) = valgrind_or_skip(&place) else {
        return;
    };
    let line = valgrind(&program);
    let arguments: Vec<&str> = line.split(' ').skip(1).collect();
    let outcome = Managed::new(&place).call(&[&["run", "--", "valgrind"], &arguments[..]].concat());
    assert_eq!(outcome.status.code(), Some(125), "{outcome}");
    assert_eq!(outcome.stdout, "", "{outcome}");
    assert!(
        outcome.stderr.contains("valgrind: Valgrind runs programs"),
        "{outcome}"
    );
}

#[test]
fn what_valgrind_runs_is_left_alone() {
    let place = Workplace::new("valgrind-child");
    let Some(program) = valgrind_or_skip(&place) else {
        return;
    };
    // `settle` waits for pages to be away where a pager is expected: none is there.
    let become_it = format!("unset PROMISES_MANAGED; exec {}", valgrind(&program));
    let start_it = format!("unset PROMISES_MANAGED; {}; exit $?", valgrind(&program));
    let native = native(&place, "/bin/sh", &["-c", &become_it]);
    assert_eq!(native.status.code(), Some(9), "{native}");
    for script in [&become_it, &start_it] {
        for managed in [Managed::new(&place), Managed::new(&place).flag("--follow")] {
            let (outcome, _) = managed
                .within(180)
                .run(Path::new("/bin/sh"), ["-c", script]);
            assert_eq!(outcome.status.code(), Some(9), "{outcome}");
            assert_eq!(outcome.stdout, native.stdout, "{outcome}");
            assert!(outcome.stderr.contains("definitely lost"), "{outcome}");
        }
    }
}
