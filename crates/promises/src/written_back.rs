//! A program whose pages do not fit into its budget even compressed, under `--writeback`.

use crate::{Managed, Statistics, Workplace, skip};
use std::path::Path;

/// Where its file is, which has a name for a moment only.
pub fn file_in(place: &Workplace) -> String {
    place.path("written-back").display().to_string()
}

/// Runs the program under a budget of a third of what it holds. Its pages compress to three quarters. `None`: skipped,
/// said loudly.
///
/// # Panics
/// When the program does not survive, or the file keeps its name.
pub fn survive(name: &str, arguments: [&str; 5], options: &[(&str, &str)]) -> Option<Statistics> {
    if !skip::root_or_skip() {
        return None;
    }
    let place = Workplace::new(name);
    let program = place.compile("written_back");
    let file = file_in(&place);
    let mut managed = Managed::new(&place)
        .budget("32M")
        .within(240)
        .option("--writeback", &file)
        .option("--writeback-size", "256M");
    for (option, value) in options {
        managed = managed.option(option, value);
    }
    let statistics = managed.survive(&program, arguments)?;
    assert!(!Path::new(&file).exists(), "the file has a name");
    eprintln!(
        "{} pages written back, {} read back; a read p50 {} ns, p99 {} ns, longest {} ns; peak {} KiB of 32 MiB, above \
         the budget for {} ms of {}",
        statistics.get("write_backs"),
        statistics.get("read_backs"),
        statistics.get("read_back_p50_ns"),
        statistics.get("read_back_p99_ns"),
        statistics.get("read_back_longest_ns"),
        statistics.get("peak_total_bytes") >> 10,
        statistics.get("above_budget_ns") / 1_000_000,
        statistics.get("budgeted_ns") / 1_000_000,
    );
    Some(statistics)
}

/// That it was of use, and did nothing wrong.
///
/// # Panics
/// When it was not, or did.
pub fn is_used(statistics: &Statistics) {
    statistics.at_least("write_backs", 4000);
    statistics.at_least("read_backs", 4000);
    assert_eq!(statistics.get("read_back_errors"), 0);
    assert_eq!(statistics.get("failed_read_backs"), 0);
}
