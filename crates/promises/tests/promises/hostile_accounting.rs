//! What the pager has mapped is a small part of what the program has: also where all that is mapped counts. It changes how
//! the machine accounts for memory, so nothing else runs meanwhile.

use crate::hostile_layout::{figure, natively};
use coldpress_promises::machine::StrictAccounting;
use coldpress_promises::{Managed, Workplace};

#[test]
fn strict_accounting_counts_little() {
    let place = Workplace::new("hostile-strict");
    let program = place.compile("hostile_limits");
    let run = || {
        let (outcome, statistics) = Managed::new(&place)
            .budget("24M")
            .run(&program, ["3", "48"]);
        let line = outcome.verdict().expect("it does not skip");
        assert!(
            statistics.is_some_and(|s| s.get("evictions") > 0),
            "{outcome}"
        );
        assert_eq!(figure(&line, "had"), 48);
        assert!(figure(&line, "data") < 128, "MiB of data: {outcome}");
        line
    };
    run();
    if let Some(_strict) = StrictAccounting::begin() {
        natively(&place, &[], &program, &["3", "48"]);
        run();
    }
}
