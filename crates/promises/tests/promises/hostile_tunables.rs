//! Promise: the engine's tunables reach it, from the command line, the environment and a file, and by `set`
//! while the program runs; what cannot be set is refused in one line, before the program starts; and every
//! figure of the engine is among the statistics, under its name.

use coldpress_promises::{Managed, Workplace, skip};
use std::path::Path;

/// What the statistics of `program` say of these figures, under 24 MiB.
fn figures<const N: usize>(
    place: &Workplace,
    program: &Path,
    tune: &[&str],
    names: [&str; N],
) -> [u64; N] {
    let mut managed = Managed::new(place).budget("24M");
    for value in tune {
        managed = managed.option("--tune", value);
    }
    let (outcome, statistics) = managed.run(program, [""; 0]);
    outcome.verdict().expect("it never skips");
    let statistics = statistics.expect("it was managed");
    names.map(|name| statistics.get(name))
}

#[test]
fn switches_of_the_engine_reach_it() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("tunables");
    let program = place.compile("hostile_kinds");
    let kinds = ["kept_zero", "kept_same_filled", "kept_stored"];
    let as_it_is = figures(&place, &program, &[], kinds);
    assert!(as_it_is.iter().all(|&pages| pages > 100), "{as_it_is:?}");
    // Without the test for pages of one word the codec has them all, and their bytes are the same.
    let without = figures(&place, &program, &["same_filled=off"], kinds);
    assert_eq!(without[..2], [0, 0]);
    assert!(without[2] > 1000, "{without:?}");
    // A target that hardly anything reaches.
    let names = [
        "kept_stored",
        "incompressible",
        "kept_anonymous",
        "kept_zero_fork",
    ];
    let tight = figures(&place, &program, &["kernel.compression.threshold=1"], names);
    assert_eq!(tight[0], 0, "{tight:?}");
    assert!(tight[1] > 100 && tight[2] + tight[3] > 100, "{tight:?}");
    // Nothing at all.
    let off = figures(&place, &program, &["strategy=none"], ["evictions"]);
    assert_eq!(off, [0]);
}

#[test]
fn what_cannot_be_set_is_refused_before_the_program_starts() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("tunables-refused");
    let managed = Managed::new(&place);
    for (tune, words) in [
        ("treshold=60", "did you mean kernel.compression.threshold?"),
        ("threshold=0", "it takes per cent, 1 to 100"),
        ("warning_mb=1", "does nothing in a Linux program"),
        (
            "reclaim_anonymous=off",
            "needs kernel.compression.reclaim_anonymous",
        ),
    ] {
        let outcome = managed.call(&["run", "--tune", tune, "--", "/bin/echo", "started"]);
        let text = outcome.to_string();
        assert_eq!(outcome.status.code(), Some(125), "{text}");
        assert!(outcome.stderr.contains(words), "{text}");
        assert_eq!(outcome.stdout, "", "{text}");
    }
}
