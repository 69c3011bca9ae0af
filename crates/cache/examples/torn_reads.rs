//! Reads a cache beside writers, evictions and a kernel that takes pages, and counts reads that are
//! not of one entry. `cargo run --release -p coldpress-cache --example torn_reads [READS]`; without a
//! number a thousand million.

#[path = "../tests/storm.rs"]
mod storm;

use coldpress_cache::Backing;
use std::time::Instant;

fn main() {
    let given = std::env::args().nth(1);
    let reads = given.map_or(1_000_000_000, |text| {
        text.replace('_', "").parse().expect("a number of reads")
    });
    let started = Instant::now();
    let outcome = storm::run(Backing::LazyFree, reads);
    let storm::Outcome {
        whole,
        discarded,
        torn,
        stats,
    } = outcome;
    println!(
        "{reads} reads in {:.0} s: {whole} whole, {discarded} discarded in place, {torn} torn; {stats:?}",
        started.elapsed().as_secs_f64()
    );
    if outcome.torn > 0 {
        println!("FAILED: {} torn reads", outcome.torn);
        std::process::exit(1);
    }
}
