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
