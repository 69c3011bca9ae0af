//! Memory that a program says it cannot wait for stays in place (`crates/preload/include/coldpress.h`).

use coldpress_promises::{Managed, Workplace, skip};
use std::process::Command;

#[test]
fn sensitive_memory_is_not_taken() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("sensitive");
    let program = place.compile("sensitive");
    let native = Command::new(&program).args(["52", "16"]).output().unwrap();
    assert!(native.status.success(), "without a pager: {native:?}");
    let managed = Managed::new(&place)
        .budget("1G")
        .option("--cold-after", "200ms");
    if let Some(statistics) = managed.survive(&program, ["52", "16", "2000"]) {
        statistics.at_least("eager_compressions", 1000);
    }
}
