//! What a managed process executes after it has dropped its rights runs: managed where the device was handed down, else
//! as without Coldpress, which is said once. Story: it ended with status 125.

use coldpress_promises::managed::{PRELOAD, binary};
use coldpress_promises::{Managed, Workplace, process, skip};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = "hostile_exec";
const SAID: &str = "started as user 65534, who may not use userfaultfd";

/// The command, where everybody can read its library.
fn binary_for_all(place: &Workplace) -> PathBuf {
    let binary = binary();
    place.copy(&binary.with_file_name(PRELOAD));
    place.copy(&binary)
}

fn natively(place: &Workplace, how: &str) {
    let mut command = Command::new(place.compile(PROGRAM));
    command.args(["73", "24", how]);
    let outcome = process::run(place, command, Duration::from_secs(60));
    assert!(outcome.verdict().is_some());
}

fn goes_on_without(how: &str, user: &str) {
    if !skip::root_or_skip() || !skip::restricted_or_skip() {
        return;
    }
    let place = Workplace::new(PROGRAM);
    natively(&place, how);
    let program = place.compile(PROGRAM);
    let managed = Managed::with_binary(&place, &binary_for_all(&place)).budget("12M");
    let (outcome, _) = managed.run(&program, ["73", "24", how]);
    let verdict = outcome.verdict().expect("a verdict");
    assert!(
        verdict.contains(user) && verdict.contains("all in place"),
        "{outcome}"
    );
    assert_eq!(outcome.stderr.matches(SAID).count(), 1, "{outcome}");
}

#[test]
fn as_another_user_it_goes_on_without() {
    goes_on_without("setuid", "user 65534");
}

#[test]
fn with_another_effective_user_it_goes_on_without() {
    goes_on_without("seteuid", "user 65534");
}

#[test]
fn what_that_executes_is_not_named_again() {
    goes_on_without("wrapped", "user 65534");
}

/// By setpriv itself.
#[test]
fn setpriv() {
    if !skip::root_or_skip() || !skip::unlocking_or_skip() || !skip::restricted_or_skip() {
        return;
    }
    let place = Workplace::new(PROGRAM);
    let program = place.compile(PROGRAM);
    let program = program.to_str().expect("a path of ours");
    let managed = Managed::with_binary(&place, &binary_for_all(&place)).budget("12M");
    let setpriv = std::path::Path::new("/usr/bin/setpriv");
    let drop = ["--reuid=65534", "--regid=65534", "--clear-groups", program];
    let (outcome, _) = managed.run(setpriv, drop.into_iter().chain(["73", "24", "run"]));
    assert!(
        outcome
            .verdict()
            .is_some_and(|verdict| verdict.contains("user 65534"))
    );
    assert_eq!(outcome.stderr.matches(SAID).count(), 1, "{outcome}");
}

/// The device that root's command was given is handed on.
#[test]
fn with_the_device_it_is_managed() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new(PROGRAM);
    let program = place.compile(PROGRAM);
    let managed = Managed::with_binary(&place, &binary_for_all(&place)).budget("12M");
    match managed.with_device() {
        Ok(managed) => {
            // The statistics directory is root's: what this user's pager counts nobody reads.
            let (outcome, _) = managed.run(&program, ["73", "24", "setuid"]);
            let verdict = outcome.verdict().expect("a verdict");
            assert!(verdict.contains("user 65534, pages away"), "{outcome}");
            assert!(!outcome.stderr.contains(SAID), "{outcome}");
        }
        Err(e) => skip::skipped(&format!("/dev/userfaultfd: {e}")),
    }
}
