//! What was stored of pages that came back here and there goes back to the kernel: memory is never more than
//! without a pager, but for what the pager itself needs.

use coldpress_promises::{Managed, Workplace, skip};

#[test]
fn what_is_restored_is_not_kept_twice() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("kept-twice");
    let program = place.compile("restored_here_and_there");
    let managed = Managed::new(&place)
        .budget("128M")
        .option("--trigger", "critical");
    managed.survive(&program, ["53", "96", "128"]);
}

#[test]
fn what_comes_back_at_once_is_not_kept_twice() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("kept-at-once");
    let program = place.compile("restored_at_once");
    let managed = Managed::new(&place)
        .budget("1G")
        .option("--cold-after", "2s")
        .within(100);
    let (outcome, statistics) = managed.run(&program, ["54", "256"]);
    statistics
        .expect("statistics")
        .at_least("evictions", 50_000);
    let verdict = outcome.verdict().expect("a verdict");
    eprintln!("{verdict}");
    let most = verdict.split_whitespace().nth(1).map(str::parse);
    assert!(matches!(most, Some(Ok(..=14))), "{verdict}");
}
