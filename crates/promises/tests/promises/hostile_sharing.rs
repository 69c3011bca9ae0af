//! Memory that others change, register or outlive holds what it holds natively.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::process::Command;
use std::time::Duration;

const KINDS: [&str; 6] = [
    "outlives",
    "guards",
    "cleared",
    "addressed",
    "registers",
    "moves",
];

fn all<'a>(place: &'a Workplace, managed: impl Fn() -> Managed<'a>, kinds: &[&str]) {
    let program = place.compile("hostile_sharing");
    for what in kinds {
        let mut natively = Command::new(&program);
        natively.args(["1", what]);
        let native = process::run(place, natively, Duration::from_secs(60));
        if native.status.code() == Some(77) {
            skip::skipped(what);
            continue;
        }
        native.verdict();
        // Nothing is counted of a pager that has left.
        let (outcome, _) = managed().chaos().within(90).run(&program, ["1", what]);
        assert_eq!(outcome.status.code(), Some(0), "{what}: {outcome}");
        assert!(outcome.stdout.contains("OK "), "{what}: {outcome}");
    }
}

#[test]
fn shared_memory_is_whole() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("sharing");
    all(&place, || Managed::new(&place), &KINDS);
}

/// A userfaultfd of its own an ordinary user may not have here.
#[test]
fn an_ordinary_users_shared_memory_is_whole() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("sharing-nobody");
    let managed = || {
        Managed::new(&place)
            .as_nobody()
            .with_device()
            .expect("the device")
    };
    all(&place, managed, &KINDS[..3]);
}
