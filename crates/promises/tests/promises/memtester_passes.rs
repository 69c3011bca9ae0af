//! memtester passes under random eviction, with every page it tests taken out at least ten times.
//!
//! memtester locks its memory when it may, and then nothing is evictable: it runs without
//! CAP_IPC_LOCK and with a limit of zero locked bytes.

use coldpress_promises::{Managed, Workplace, skip};
use std::path::Path;

const MEMTESTER: &str = "/usr/sbin/memtester";

#[test]
fn memtester_passes() {
    if !skip::root_or_skip()
        || !skip::installed_or_skip(MEMTESTER, "memtester")
        || !skip::unlocking_or_skip()
    {
        return;
    }
    let place = Workplace::new("memtester");
    let (outcome, statistics) = Managed::new(&place)
        .budget("64M")
        .chaos()
        .within(150)
        .without_locking()
        .run(Path::new(MEMTESTER), ["8M", "2"]);
    assert!(outcome.status.success(), "{outcome}");
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("unlocked"), "memory was locked: {outcome}");
    let statistics = statistics.unwrap_or_else(|| panic!("no statistics: {outcome}"));
    let least = statistics.get("least_evictions_of_a_page");
    eprintln!(
        "memtester 8 MiB: {:.1} s, least evictions of a page {least}, {}",
        outcome.wall.as_secs_f64(),
        statistics.summary()
    );
    statistics.at_least("evictions", 10 * (8 << 20) / 4096);
    statistics.at_least("least_evictions_of_a_page", 10);
}
