//! The stress program, under random eviction and by budget, until a million pages have been given
//! back to it with content. Every page is verified each time it is touched.

use coldpress_promises::{Managed, Workplace, skip};
use std::time::{Duration, Instant};

const WANTED: u64 = 1_000_000;

/// Past this the machine or the pager is too slow, which is a failure of its own kind.
const PATIENCE: Duration = Duration::from_secs(150);

#[test]
fn a_million_restores_none_wrong() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("million");
    let program = place.compile("stress");
    let started = Instant::now();
    let mut restores = 0;
    for seed in 100u64.. {
        if restores >= WANTED {
            break;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "only {restores} restores within {} s",
            PATIENCE.as_secs()
        );
        let managed = Managed::new(&place).budget("24M").within(60);
        let managed = if seed % 2 == 0 {
            managed.chaos()
        } else {
            managed
        };
        let arguments = [&seed.to_string(), "3", "64", "12", "0"];
        let statistics = managed
            .survive(&program, arguments)
            .expect("stress never skips");
        restores += statistics.get("decompressions") + statistics.get("faults_copied");
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{restores} restores, none wrong, in {seconds:.0} s");
}
