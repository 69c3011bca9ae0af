//! The program that verifies would notice: a page with one bit turned ends it with a report of the page, a
//! fault that is not answered ends it with a report of the thread.

use coldpress_interface::config;
use coldpress_promises::managed::binary;
use coldpress_promises::{Managed, Workplace, skip};

/// Output of a run that must fail and must say all of `words`. `managed` makes such a run, with so many thousandths of
/// rare steps. A run that
/// ends well did not meet what it should: a page whose fault is not answered may be restored with a
/// neighbour of it, or put back because it does not compress. Then it is run again.
fn reported<'a>(
    managed: impl Fn() -> Managed<'a>,
    rare: &str,
    place: &Workplace,
    words: &[&str],
) -> String {
    let program = place.compile("verify");
    let run = || {
        let managed = managed().chaos().budget("64M");
        let status = binary().display().to_string();
        managed
            .environment("VERIFY_STATUS", &status)
            .run(&program, ["7", "2", "16", "12", "0", rare, "0"])
            .0
    };
    let outcomes = std::iter::repeat_with(run).take(4);
    let outcome = outcomes
        .inspect(|outcome| println!("{}", outcome.status))
        .find(|outcome| !outcome.status.success())
        .expect("one of four runs meets it");
    for word in words {
        assert!(outcome.stdout.contains(word), "no `{word}`: {outcome}");
    }
    outcome.stdout
}

#[test]
fn a_wrong_page() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("wrong-page");
    let managed = || Managed::new(&place).environment("VERIFY_SPOIL", "1");
    let words = [
        "MISMATCH: seed 7 thread 0",
        "word 256: expected 0x",
        "1 words differ",
        "kernel: page map 0x",
        "VmFlags:",
        "200 ms later it is still wrong",
        "pager: ",
        "\"evictions\"",
        "WRONG: seed 7",
    ];
    reported(managed, "5", &place, &words);
}

#[test]
fn a_stuck_thread() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("stuck-thread");
    let managed = || Managed::new(&place).environment(config::STALL_FIRST_FAULT_MS, "60000");
    let words = [
        "STUCK: thread ",
        " has been at page 0x",
        "(the stuck one)",
        "wchan: ",
        "syscall: ",
        "stack: ",
        "(coldpress/fault)",
        "\"stalled_address\"",
        "WRONG: stuck for 5000 ms",
    ];
    // None: a system call may meet a page that is away behind the one that the step names.
    let said = reported(managed, "0", &place, &words);
    // What the program and the pager say of the page is the same.
    let page = said.split("at page 0x").nth(1).unwrap_or("");
    let page = page.split(' ').next().unwrap_or("");
    let page = u64::from_str_radix(page, 16).expect("an address");
    let stalled = said.split("\"stalled_address\": ").nth(1).unwrap_or("");
    let digits = stalled.split(|c: char| !c.is_ascii_digit()).next();
    assert_eq!(digits, Some(page.to_string().as_str()), "{said}");
}
