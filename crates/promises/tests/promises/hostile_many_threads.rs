//! More threads than the pager can leave alone run as they do natively: nothing is compressed any more, and that is said.

use coldpress_promises::{Managed, Workplace, process};
use std::process::Command;
use std::time::Duration;

/// Natively and now a few seconds; 36 s before.
const LIMIT: Duration = Duration::from_secs(60);

/// Story: from some 4,000 threads on each took tens of milliseconds, and a line of an address for each said that it
/// "may be evicted". Nothing was.
#[test]
fn ten_thousand_threads_run() {
    let place = Workplace::new("many-threads");
    let program = place.compile("hostile_many_threads");
    let arguments = ["1", "10000"];
    let mut natively = Command::new(&program);
    natively.args(arguments);
    if process::run(&place, natively, LIMIT).verdict().is_none() {
        return;
    }
    let managed = Managed::new(&place).budget("12M").within(LIMIT.as_secs());
    let (outcome, _) = managed.run(&program, arguments);
    assert!(outcome.verdict().is_some(), "{outcome}");
    let said = outcome.stderr.matches("nothing more is compressed").count();
    assert_eq!(said, 1, "{outcome}");
    assert!(!outcome.stderr.contains("messages were lost"), "{outcome}");
}
