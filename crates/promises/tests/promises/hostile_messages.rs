//! What the pager has to say never goes to a descriptor that the program could own, and arrives at standard error of
//! `coldpress run` all the same: promptly, and when the process is ended with the next instruction.
//!
//! Seen to fail: with messages written to descriptor 2 of the program, the data file of a daemon held one, a
//! pipe held one, and nothing arrived where the program had made descriptor 2 something else.

use coldpress_interface::config;
use coldpress_promises::{Managed, Outcome, Workplace, skip};
use std::process::Command;

fn reuse(place: &Workplace, managed: &Managed<'_>, how: &str) {
    let program = place.compile("hostile_reuses_stderr");
    let natively = Command::new(&program)
        .args([how, "1"])
        .current_dir(place.dir())
        .output()
        .unwrap();
    assert!(natively.status.success(), "{how}: {natively:?}");
    let (outcome, statistics) = managed.run(&program, [how, "24"]);
    assert!(outcome.verdict().is_some(), "{how}");
    let statistics = statistics.unwrap_or_else(|| panic!("no statistics: {outcome}"));
    // There was something to say.
    statistics.at_least("stalled_faults", 1);
    let address = format!("{:x}", statistics.get("stalled_address"));
    assert!(is_said(&outcome, &address), "{how}: {outcome}");
}

fn is_said(outcome: &Outcome, what: &str) -> bool {
    let lines = outcome.stderr.lines();
    lines
        .filter(|line| line.starts_with("coldpress: "))
        .any(|line| line.contains(what))
}

#[test]
fn descriptor_2_is_the_programs() {
    if !skip::root_or_skip() {
        return;
    }
    for how in ["file", "pipe", "full"] {
        let place = Workplace::new("messages");
        let managed = Managed::new(&place)
            .budget("12M")
            .environment(config::STALL_FIRST_FAULT_MS, "2500");
        reuse(&place, &managed, how);
    }
}

#[test]
fn descriptor_2_is_the_programs_of_an_ordinary_user() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("messages-nobody");
    let managed = Managed::new(&place)
        .budget("12M")
        .environment(config::STALL_FIRST_FAULT_MS, "2500")
        .as_nobody();
    match managed.with_device() {
        Ok(managed) => reuse(&place, &managed, "pipe"),
        Err(error) => skip::skipped(&format!("/dev/userfaultfd: {error}")),
    }
}

/// The process ends with status 125 right after the message; its descriptor 2 is closed.
#[test]
fn last_words_arrive() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("messages-last");
    let script = format!(
        "export {}=nonsense; exec /bin/true 2>&-",
        config::handed::CODEC
    );
    let (outcome, _) = Managed::new(&place).run("/bin/sh".as_ref(), ["-c", &script]);
    assert_eq!(outcome.status.code(), Some(125), "{outcome}");
    assert!(
        is_said(&outcome, "names nothing that the pager's library has"),
        "{outcome}"
    );
}
