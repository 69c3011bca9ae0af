//! Futexes on pages that are away do what they do natively, those too whose words the kernel takes without waiting.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::process::Command;
use std::time::Duration;

fn futexes<'a>(place: &'a Workplace, managed: Managed<'a>) {
    let program = place.compile("hostile_futex");
    let mut natively = Command::new(&program);
    natively.arg("1");
    process::run(place, natively, Duration::from_secs(60)).verdict();
    managed.chaos().survive(&program, ["1"]);
}

#[test]
fn futexes_are_found() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("futex");
    futexes(&place, Managed::new(&place));
}

#[test]
fn an_ordinary_users_futexes_are_found() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("futex-nobody");
    let managed = Managed::new(&place).as_nobody();
    futexes(&place, managed.with_device().expect("the device"));
}
