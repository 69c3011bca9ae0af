//! A program enters namespaces as it does natively, where the kernel wants a process of one thread or one whose threads
//! share no working directory; and it is managed afterwards.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::process::Command;
use std::time::Duration;

fn all_enter<'a>(place: &'a Workplace, ways: &[&str], managed: impl Fn() -> Managed<'a>) {
    let program = place.compile("hostile_namespaces");
    for how in ways {
        let mut natively = Command::new(&program);
        natively.args(["1", how]);
        let outcome = process::run(place, natively, Duration::from_secs(60));
        if outcome.verdict().is_some() {
            managed().survive(&program, ["1", how]);
        }
    }
}

#[test]
fn namespaces_are_entered() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("namespaces");
    let ways = [
        "user",
        "mount",
        "among_threads",
        "enter_mount",
        "enter_user",
        "enter_time",
    ];
    all_enter(&place, &ways, || Managed::new(&place));
}

#[test]
fn an_ordinary_user_enters_namespaces() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("namespaces-nobody");
    all_enter(&place, &["user", "mount", "among_threads"], || {
        let managed = Managed::new(&place).as_nobody();
        managed.with_device().expect("the device")
    });
}

/// A program that waits for its pager has a thread of it, too.
#[test]
fn a_followed_program_enters_namespaces() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("namespaces-follow");
    all_enter(&place, &["user"], || {
        Managed::new(&place).option("--follow", "--quiet")
    });
}

/// It enters one in the moment in which the pager makes its threads.
#[test]
fn programs_enter_namespaces_while_the_pager_starts() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("namespaces-start");
    let program = place.compile("hostile_namespaces");
    let program = program.to_str().expect("a path in UTF-8");
    for _ in 0..10 {
        let shell = ["-c", "\"$@\"; exit $?", "sh", program];
        let arguments = shell.into_iter().chain(["1", "user_while_starting"]);
        let (outcome, _) = Managed::new(&place).run("/bin/sh".as_ref(), arguments);
        assert!(outcome.verdict().is_some(), "{outcome}");
    }
}

/// The thread that waits keeps no directory: what is mounted where the program began can be unmounted once the program
/// has left it.
#[test]
fn the_thread_that_waits_keeps_no_directory() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("namespaces-directory");
    let directory = place.path("begins-here");
    std::fs::create_dir(&directory).expect("a directory");
    let directory = directory.to_str().expect("a path in UTF-8");
    let script = "cd \"$1\"; sleep 30 & cd /; sleep 0.4; readlink /proc/$!/task/*/cwd; kill $!";
    let arguments = ["-c", script, "sh", directory];
    let (outcome, _) = Managed::new(&place).run("/bin/sh".as_ref(), arguments);
    let mut of_threads: Vec<_> = outcome.stdout.lines().collect();
    of_threads.sort_unstable();
    assert_eq!(of_threads, ["/", directory], "{outcome}");
}
