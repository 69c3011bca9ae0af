//! Programs of sanitizers run under the pager as natively: their shadow memory goes and comes like any other, and
//! what they find they say, with the status that they say it with.
//!
//! Seen to fail: with `memcpy` imported, the pager ran AddressSanitizer's, whose shadow memory it had taken (hang);
//! LeakSanitizer stopped the pager's threads and then read what was away (hang); AddressSanitizer's shared library
//! refused to run behind the preload library (status 1); the shadow memory's terabytes were searched for pages window by
//! window, so that nothing was ever taken.

use coldpress_promises::workplace::source;
use coldpress_promises::{Managed, Outcome, Workplace, process, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SECONDS: u64 = 240;

/// The program under a sanitizer; `None` where the compiler has none.
fn compile(place: &Workplace, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = place.path(&format!("{compiler}{}", flags.concat().replace('=', "-")));
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g", "-pthread", "-w"]).args(flags);
    command
        .arg("-o")
        .arg(&program)
        .arg(source("hostile_sanitized.c"));
    if !command.status().is_ok_and(|status| status.success()) {
        skip::skipped(&format!(
            "{compiler} {flags:?} (apt-get install gcc clang libclang-rt-dev)"
        ));
        return None;
    }
    Some(program)
}

/// What the sanitizer found, without addresses and numbers (a leak may still be known to a register):
/// `SUMMARY: ThreadSanitizer: data race ...`.
fn found(outcome: &Outcome) -> Vec<String> {
    let told = |line: &&str| line.contains("SUMMARY: ") || line.contains("runtime error");
    let lines = outcome.stderr.lines().filter(told);
    let plain = |line: &str| {
        let what = line.split(" (").next().unwrap_or(line);
        what.replace(|c: char| c.is_ascii_digit(), "")
    };
    lines.map(plain).collect()
}

/// Runs it natively and under `managed`, which must not differ.
#[track_caller]
fn compare(place: &Workplace, managed: &Managed<'_>, program: &Path, what: &str) {
    let mut command = Command::new(program);
    command.arg(what);
    let native = process::run(place, command, Duration::from_secs(SECONDS));
    assert_eq!(found(&native).is_empty(), what == "clean", "{native}");
    let (outcome, statistics) = managed.run(program, [what]);
    assert_eq!(
        outcome.status, native.status,
        "{outcome}\nnatively {native}"
    );
    assert_eq!(outcome.stdout, native.stdout, "{outcome}");
    assert_eq!(found(&outcome), found(&native), "{outcome}");
    statistics.expect("statistics").at_least("evictions", 1000);
}

fn survives(compiler: &str, flags: &[&str], does: &[&str]) {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("sanitized");
    let Some(program) = compile(&place, compiler, flags) else {
        return;
    };
    for what in does {
        compare(
            &place,
            &Managed::new(&place).within(SECONDS),
            &program,
            what,
        );
    }
}

const ADDRESS: &[&str] = &["clean", "leak", "check", "overflow"];

#[test]
fn address_sanitizer_as_a_shared_library() {
    survives("gcc", &["-fsanitize=address"], ADDRESS);
}

#[test]
fn address_sanitizer_linked_in() {
    survives("gcc", &["-fsanitize=address", "-static-libasan"], &["leak"]);
    survives("clang", &["-fsanitize=address"], ADDRESS);
}

#[test]
fn leak_sanitizer() {
    survives("gcc", &["-fsanitize=leak"], &["clean", "leak", "check"]);
}

#[test]
fn thread_sanitizer() {
    survives("gcc", &["-fsanitize=thread"], &["race"]);
    survives("clang", &["-fsanitize=thread"], &["clean", "race"]);
}

#[test]
fn memory_sanitizer() {
    survives("clang", &["-fsanitize=memory"], &["clean", "unset"]);
}

#[test]
fn undefined_behaviour_sanitizer() {
    survives("gcc", &["-fsanitize=undefined"], &["clean", "shift"]);
}

/// Nobody can be told when LeakSanitizer begins where the program answers its question itself: hidden, or for all to see.
/// Seen to fail: hidden, it hung.
#[test]
fn a_program_that_answers_leak_sanitizer_itself_is_left_alone() {
    if !skip::root_or_skip() {
        return;
    }
    let kinds: [(&str, &[&str]); 4] = [
        ("clang", &["-fsanitize=address", "-DANSWERS=hidden"]),
        (
            "clang",
            &["-fsanitize=address", "-DANSWERS=default", "-rdynamic"],
        ),
        (
            "gcc",
            &["-fsanitize=address", "-static-libasan", "-DANSWERS=hidden"],
        ),
        ("clang", &["-fsanitize=leak", "-DANSWERS=hidden"]),
    ];
    for (number, (compiler, flags)) in kinds.into_iter().enumerate() {
        let place = Workplace::new(&format!("answers-{number}"));
        let Some(program) = compile(&place, compiler, flags) else {
            return;
        };
        for what in ["clean", "leak"] {
            let shown = program.display().to_string();
            let line = ["env", "-u", "PROMISES_MANAGED", &shown, what];
            let mut command = Command::new(line[0]);
            command.args(&line[1..]);
            let native = process::run(&place, command, Duration::from_secs(SECONDS));
            assert_eq!(found(&native).is_empty(), what == "clean", "{native}");
            let managed = Managed::new(&place).within(SECONDS);
            let (outcome, _) = managed.run(Path::new("/usr/bin/env"), &line[1..]);
            assert_eq!(
                outcome.status, native.status,
                "{outcome}\nnatively {native}"
            );
            assert_eq!(found(&outcome), found(&native), "{outcome}");
            assert!(
                outcome
                    .stderr
                    .contains("is not managed: it answers LeakSanitizer itself"),
                "{outcome}"
            );
        }
    }
}

#[test]
fn as_an_ordinary_user_and_at_random() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("sanitized-nobody");
    let Some(program) = compile(&place, "gcc", &["-fsanitize=address"]) else {
        return;
    };
    let managed = Managed::new(&place).within(SECONDS);
    compare(&place, &managed.chaos(), &program, "leak");
    match Managed::new(&place)
        .as_nobody()
        .within(SECONDS)
        .with_device()
    {
        Ok(nobody) => compare(&place, &nobody, &program, "leak"),
        Err(error) => skip::skipped(&format!("/dev/userfaultfd: {error}")),
    }
}

/// A child inherits the library, and is not managed.
#[test]
fn as_a_child_that_is_not_managed() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("sanitized-child");
    let Some(program) = compile(&place, "gcc", &["-fsanitize=address"]) else {
        return;
    };
    let script = format!(
        "unset PROMISES_MANAGED; {} leak; echo status $?",
        program.display()
    );
    let (outcome, _) = Managed::new(&place).run(Path::new("/bin/sh"), ["-c", &script]);
    assert_eq!(outcome.stdout, "OK leak\nstatus 1\n", "{outcome}");
    assert!(found(&outcome).concat().contains("leaked"), "{outcome}");
}
