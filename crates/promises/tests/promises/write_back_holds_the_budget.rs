//! A program that does not fit into its budget even compressed is held within it by `--writeback`.

use coldpress_promises::written_back::{is_used, survive};

const MIB: u64 = 1 << 20;

#[test]
fn write_back_holds_the_budget() {
    let arguments = ["1", "96", "3", "6000", "0"];
    let Some(statistics) = survive("write_back_holds", arguments, &[]) else {
        return;
    };
    is_used(&statistics);
    // Where reclaim waits for a processor memory is above the budget for that moment: how far, the machine decides.
    let average = statistics.get("average_total_bytes");
    assert!(average <= 33 * MIB, "{} KiB were held", average >> 10);
    let peak = statistics.get("peak_total_bytes");
    assert!(peak <= 48 * MIB, "{} KiB were held at a time", peak >> 10);
    let (above, all) = (
        statistics.get("above_budget_ns"),
        statistics.get("budgeted_ns"),
    );
    assert!(above * 5 <= all, "above the budget for {above} of {all} ns");
}
