//! A process ends when the last thread of the program has left, however it left, with the status that it has natively.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// How the program ends, and its status: a code, or a signal.
const ENDS: [(&str, Result<i32, i32>); 10] = [
    ("leader", Ok(7)),
    ("strict", Ok(9)),
    ("strict_killed", Err(libc::SIGKILL)),
    ("killed", Err(libc::SIGSYS)),
    ("thread", Ok(5)),
    ("thread_killed", Err(libc::SIGSYS)),
    ("leader_last", Ok(3)),
    ("pthread_exit", Ok(0)),
    ("exit_later", Ok(11)),
    ("child", Ok(6)),
];

fn ended(status: ExitStatus) -> Result<i32, i32> {
    status.code().ok_or_else(|| status.signal().unwrap_or(0))
}

/// Where the program cannot do it here (it says so), nothing is shown.
fn natively(place: &Workplace, program: &Path, how: &str) -> Option<ExitStatus> {
    let mut command = Command::new(program);
    command.args(["1", how]);
    let outcome = process::run(place, command, Duration::from_secs(30));
    (outcome.status.code() != Some(77)).then_some(outcome.status)
}

fn all_end<'a>(place: &'a Workplace, managed: impl Fn() -> Managed<'a>) {
    let program = place.compile("hostile_departure");
    for (how, status) in ENDS {
        match natively(place, &program, how) {
            Some(native) => assert_eq!(ended(native), status, "{how}, natively"),
            None => {
                skip::skipped(how);
                continue;
            }
        }
        let (outcome, _) = managed().within(60).run(&program, ["1", how]);
        assert_eq!(ended(outcome.status), status, "{how}: {outcome}");
        assert!(outcome.stdout.starts_with("settled\n"), "{how}: {outcome}");
        assert!(!outcome.stdout.contains("WRONG"), "{how}: {outcome}");
    }
}

#[test]
fn a_process_ends_with_its_last_thread() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("departure");
    all_end(&place, || Managed::new(&place));
}

#[test]
fn so_does_an_ordinary_users() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("departure-nobody");
    all_end(&place, || {
        let managed = Managed::new(&place).as_nobody();
        managed.with_device().expect("the device")
    });
}

/// A program that waits for its pager has a thread of it, too.
#[test]
fn a_followed_program_ends_with_its_last_thread() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("departure-follow");
    let program = place.compile("hostile_departure");
    let managed = Managed::new(&place).option("--follow", "--quiet");
    let (outcome, _) = managed.within(60).run(&program, ["1", "leader"]);
    assert_eq!(ended(outcome.status), Ok(7), "{outcome}");
}
