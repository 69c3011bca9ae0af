//! No read hands out half of one entry and half of another: ten million reads beside writers,
//! evictions and a kernel that takes pages. A thousand million, in two to three minutes:
//! `COLDPRESS_READS=1000000000 cargo test --release -p coldpress-cache --test torn_reads`.
//!
//! A program of its own: what races is chance, and less of it with other tests on the same processors.

mod storm;

use coldpress_cache::Backing;

/// Ten million of both kinds of memory together, or what the variable says.
fn reads() -> u64 {
    match std::env::var("COLDPRESS_READS") {
        Ok(text) => text.parse().expect("COLDPRESS_READS is a number"),
        Err(_) => 10_000_000,
    }
}

#[test]
fn ten_million_reads_are_whole() {
    let reads = reads() / 2;
    // The pages do not hold all keys, so that pages change keys all the time.
    for backing in [Backing::LazyFree, Backing::DontNeed] {
        // What races is chance: 15 reads of a storm and more have been seen to.
        let mut storms = 0;
        let outcome = loop {
            let outcome = storm::run(backing, reads);
            println!("{backing:?}: {outcome:?}");
            assert_eq!(outcome.torn, 0);
            storms += 1;
            if outcome.discarded > 0 || storms == 5 {
                break outcome;
            }
        };
        assert!(
            outcome.whole > reads / 10,
            "the storm hardly hits: {outcome:?}"
        );
        assert!(outcome.discarded > 0, "nothing raced: {outcome:?}");
        assert!(outcome.stats.resets > 0 && outcome.stats.evicted > 0);
    }
}
