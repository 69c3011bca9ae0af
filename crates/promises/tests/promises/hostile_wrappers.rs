//! A budget holds for what a wrapper starts, without an option; what is left out says so.
//!
//! Seen to fail: with children left alone by default, nothing of the wrapped program was taken, and the summary
//! spoke of the wrapper's 161 KiB.

use coldpress_promises::{Managed, Outcome, Statistics, Workplace, skip};

const BUDGET: u64 = 24 << 20;

/// Milliseconds for each MiB of the first content: what a program touches before the pager's first look cannot be
/// held, and as fast as it can it touches 24 MiB in the time that a busy machine takes to start a thread.
const PACE_MS: &str = "8";

/// 64 MiB under 24, started by a wrapper.
fn wrapped(
    place: &Workplace,
    managed: &Managed<'_>,
    words: &[&str],
    passes: &str,
) -> (Outcome, Statistics) {
    let program = place.compile("larger_than_limit");
    let program = program.to_str().unwrap();
    let script = format!("{program} 7 64 {passes} {PACE_MS}; exit $?");
    let words: Vec<&str> = words
        .iter()
        .flat_map(|word| match *word {
            "SCRIPT" => vec![script.as_str()],
            "PROGRAM" => vec![program, "7", "64", passes, PACE_MS],
            word => vec![word],
        })
        .collect();
    let (outcome, statistics) = managed.run(words[0].as_ref(), &words[1..]);
    assert!(outcome.stdout.contains("OK 64 MiB"), "{outcome}");
    assert_eq!(outcome.status.code(), Some(0), "{outcome}");
    (outcome, statistics.expect("statistics"))
}

#[track_caller]
fn is_managed(words: &[&str], outcome: &Outcome, statistics: &Statistics) {
    let all = statistics.part("follow");
    assert!(all.get("evictions") > 5_000, "{words:?}: {outcome}");
    // The peak before the first look is in it.
    let peak = all.get("largest_peak_total_bytes");
    assert!(peak < 2 * BUDGET, "{words:?}: {peak}: {outcome}");
    let mut summary = outcome.stderr.lines();
    assert!(
        summary.any(|line| line.starts_with("coldpress: ") && line.contains("larger_than_lim")),
        "{words:?}: the summary is of something else: {outcome}"
    );
}

#[test]
fn a_wrapper_needs_no_option() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("wrappers");
    let managed = Managed::new(&place).budget("24M");
    for words in [
        &["/bin/sh", "-c", "SCRIPT"][..],
        &["/usr/bin/timeout", "60", "PROGRAM"],
        &["/usr/bin/env", "A=b", "PROGRAM"],
        &[
            "/usr/bin/python3",
            "-c",
            "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))",
            "PROGRAM",
        ],
    ] {
        if skip::installed_or_skip(words[0], "python3") {
            let (outcome, statistics) = wrapped(&place, &managed, words, "1");
            is_managed(words, &outcome, &statistics);
        }
    }
}

#[test]
fn nor_does_an_ordinary_users() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("wrappers-nobody");
    match Managed::new(&place).budget("24M").as_nobody().with_device() {
        Ok(managed) => {
            let words = ["/bin/sh", "-c", "SCRIPT"];
            let (outcome, statistics) = wrapped(&place, &managed, &words, "1");
            is_managed(&words, &outcome, &statistics);
        }
        Err(error) => skip::skipped(&format!("/dev/userfaultfd: {error}")),
    }
}

#[test]
fn what_is_not_followed_is_named_with_the_option() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("wrappers-not");
    let by_option = Managed::new(&place)
        .budget("24M")
        .option("--cold-after", "none");
    for managed in [
        by_option.environment("COLDPRESS_FOLLOW", "0"),
        Managed::new(&place)
            .budget("24M")
            .environment("COLDPRESS_FOLLOW", "no"),
    ] {
        let (outcome, statistics) = wrapped(&place, &managed, &["/bin/sh", "-c", "SCRIPT"], "60");
        assert_eq!(statistics.part("follow").get("evictions"), 0);
        let named = outcome.stderr.lines().any(|line| {
            line.contains("not managed: larger_than_lim") && line.contains("--no-follow")
        });
        assert!(named, "{outcome}");
    }
}
