//! The rounds of `cargo xtask verify`, until a million pages have been taken out and given back with
//! content: every page is verified each time it is touched, and nobody is stuck.

use coldpress_promises::managed::binary;
use coldpress_promises::verify::{Figures, ROUNDS};
use coldpress_promises::{Workplace, skip};
use std::time::{Duration, Instant};

const WANTED: u64 = 1_000_000;

const ROUND_SECONDS: u64 = 2;

/// Past this the machine or the pager is too slow, which is a failure of its own kind.
const PATIENCE: Duration = Duration::from_secs(240);

#[test]
fn a_million_restores_none_wrong() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("million");
    let program = place.compile("verify");
    let started = Instant::now();
    let mut total = Figures::default();
    for (number, seed) in (0..).zip(100u64..) {
        // Every kind of round at least once.
        if number >= ROUNDS.len() && total.cycles >= WANTED {
            break;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "only {} cycles within {} s",
            total.cycles,
            PATIENCE.as_secs()
        );
        let round = &ROUNDS[number % ROUNDS.len()];
        match round.run(&place, &binary(), &program, seed, ROUND_SECONDS) {
            Ok(figures) => total += figures,
            Err(report) => panic!("{report}"),
        }
    }
    assert!(
        total.calls > 1000 && total.cold > total.calls / 100,
        "system calls hardly met what is away: {total:?}"
    );
    let seconds = started.elapsed().as_secs_f64();
    println!("none wrong in {seconds:.0} s: {total:?}");
}
