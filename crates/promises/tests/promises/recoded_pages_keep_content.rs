//! What stays compressed for long is stored anew, denser, while the program uses and drops other pages:
//! it takes less room, and every page reads back. With `--recode-after none` nothing of that is done, and the
//! first test was seen to fail. That no page is lost to what happens meanwhile is shown step by step by
//! `crates/engine/tests/on_machine/recode.rs` and by the simulation; this is a real process.

use coldpress_promises::{Managed, Statistics, Workplace, skip};

/// Whether this processor re-codes at all.
fn can_recode() -> bool {
    let can =
        std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi2");
    if !can {
        skip::skipped("re-coding needs press, which needs AVX2");
    }
    can
}

fn run(
    name: &str,
    budget: &str,
    recode_after: &str,
    chaos: bool,
    milliseconds: &str,
) -> Option<Statistics> {
    if !skip::root_or_skip() || !can_recode() {
        return None;
    }
    let place = Workplace::new(name);
    let program = place.compile("recoded");
    let managed = Managed::new(&place)
        .budget(budget)
        .option("--cold-after", "300ms")
        .option("--recode-after", recode_after);
    match chaos {
        true => managed.chaos(),
        false => managed,
    }
    .survive(&program, ["61", "64", milliseconds])
}

#[test]
fn what_stays_compressed_becomes_smaller_and_reads_back() {
    let Some(statistics) = run("recoded", "48M", "500ms", false, "15000") else {
        return;
    };
    let recoded = statistics.get("recoded");
    let saved = statistics.get("recode_saved_bytes");
    eprintln!(
        "{recoded} of {} pages tried, {saved} bytes saved, {} ms",
        statistics.get("recode_attempts"),
        statistics.get("recode_time_ns") / 1_000_000
    );
    assert!(recoded >= 2000, "{recoded} pages");
    // Press needs seven bits for what press-dense writes in four.
    assert!(saved / recoded > 500, "{} bytes a page", saved / recoded);
    assert!(statistics.get("recode_sample_pages") >= 128);
}

/// By press alone these pages take more than half of their size, and the budget leaves hardly any room for
/// pages in place: with `none` for the age the program took five times as long.
#[test]
fn nobody_waits_for_an_age_where_storage_is_most_of_the_budget() {
    let Some(statistics) = run("squeezed", "36M", "1h", false, "10000") else {
        return;
    };
    let peak = statistics.get("peak_total_bytes") >> 10;
    let recoded = statistics.get("recoded");
    eprintln!("{recoded} pages, peak {peak} KiB");
    assert!(recoded >= 1000, "{recoded} pages");
    assert!(peak <= 40 << 10, "{peak} KiB");
}

#[test]
fn content_is_kept_under_random_eviction() {
    if let Some(statistics) = run("recoded_chaos", "48M", "30ms", true, "10000") {
        eprintln!("{} pages", statistics.get("recoded"));
        statistics.at_least("recoded", 100);
    }
}

#[test]
fn none_means_none() {
    if let Some(statistics) = run("recoded_none", "48M", "none", false, "3000") {
        let figures = ["recode_attempts", "recode_sample_pages", "recode_time_ns"];
        assert_eq!(figures.map(|name| statistics.get(name)), [0; 3]);
    }
}
