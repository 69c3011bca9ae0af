//! The pager leaves the program the mappings that the kernel allows it.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::process::Command;
use std::time::Duration;

/// Story: each chunk of a sparse heap was registered by itself; with 65,531 mappings the program could have neither memory
/// nor threads.
#[test]
fn a_sparse_heap_stays_few_mappings() {
    let place = Workplace::new("hostile-sparse");
    let program = place.compile("hostile_sparse");
    let mut native = Command::new(&program);
    native.arg("1");
    let outcome = process::run(&place, native, Duration::from_secs(60));
    outcome.verdict().unwrap_or_else(|| panic!("{outcome}"));
    let managed = || {
        Managed::new(&place)
            .budget("1G")
            .option("--cold-after", "100ms")
    };
    let check = |managed: Managed| {
        let (outcome, _) = managed.run(&program, ["1"]);
        let line = outcome.verdict().expect("it does not skip");
        let mut words = line
            .split_whitespace()
            .skip_while(|&word| word != "mappings");
        let most: u64 = words.nth(1).and_then(|word| word.parse().ok()).unwrap();
        eprintln!("{line}");
        assert!(most < 30_000, "{most} mappings: {outcome}");
    };
    check(managed());
    if skip::root_or_skip() {
        match managed().as_nobody().with_device() {
            Ok(managed) => check(managed),
            Err(error) => skip::skipped(&format!("/dev/userfaultfd: {error}")),
        }
    }
}
