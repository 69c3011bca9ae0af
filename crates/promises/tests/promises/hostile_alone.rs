//! A sandbox in a user namespace of its own has one thread.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::process::Command;
use std::time::Duration;

/// Story: Chromium makes its sandbox by `clone` with `CLONE_NEWUSER`, and stops where the child has a second
/// thread. The pager's waited in it: "No usable sandbox!", and the browser ended.
fn is_alone(how: &str) {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("alone");
    let program = place.compile("hostile_alone");
    let mut natively = Command::new(&program);
    natively.args(["1", how]);
    if process::run(&place, natively, Duration::from_secs(30))
        .verdict()
        .is_none()
    {
        return;
    }
    let managed = Managed::new(&place).as_nobody();
    let managed = managed.with_device().expect("the device");
    managed.budget("8M").survive(&program, ["1", how]);
}

#[test]
fn what_clone_makes_in_a_user_namespace_has_one_thread() {
    is_alone("clone");
}

#[test]
fn so_does_what_the_system_call_makes() {
    is_alone("number");
}

/// It can have no userfaultfd: nothing waits in it to start a pager.
#[test]
fn so_does_what_it_executes() {
    is_alone("executed");
}
