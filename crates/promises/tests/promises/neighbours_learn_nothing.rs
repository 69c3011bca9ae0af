//! What a program can count and time of its own memory does not depend on what another one, under a
//! pager of its own, keeps compressed. What is counted is compared exactly; what is timed is held
//! against how much two turns in one and the same state differ, and against no clock.

use coldpress_promises::neighbours::{OPERATIONS, PAGES, SPARED, STATES, Samples, measure};
use coldpress_promises::{Workplace, managed, skip};

const ROUNDS: usize = 7;
const TRIES: usize = 3;
/// All states but the busy one, whose work on the processors can be noticed, of course.
const QUIET: usize = 5;

/// A difference is seen if it is larger than so many times the noise ...
const NOISE: f64 = 8.0;
/// ... and than this share of what is measured.
const SHARE: f64 = 0.15;
/// What is held against the clock: not the 99th percentiles.
const TIMED: [usize; 3] = [0, 2, 3];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Differences in the same round, and what their median must exceed to be seen.
fn compare(of: &[f64], first: &[f64], control: &[f64]) -> (f64, f64) {
    let less = |a: &[f64]| a.iter().zip(first).map(|(a, b)| a - b).collect::<Vec<_>>();
    let noise = less(control).into_iter().map(f64::abs).collect();
    let limit = (NOISE * median(noise)).max(SHARE * median(first.to_vec()));
    (median(less(of)), limit)
}

/// What was timed: the median difference, and what it must exceed to be seen.
type Seen = (String, f64, f64);

/// Measures all rounds: what must not be seen, and, as the last, what must be.
fn time(place: &Workplace) -> Vec<Seen> {
    let measured = measure(&managed::binary(), place, ROUNDS, QUIET, |_| {});
    let Samples { times, counted } = measured.expect("two processes");
    for (state, counted) in STATES.iter().zip(&counted[..QUIET]) {
        assert_eq!(counted.len(), ROUNDS);
        for (absent, faults) in counted {
            assert!(
                absent == faults && absent + SPARED >= PAGES,
                "{faults} own faults for {absent} own pages out, while the other is {state}"
            );
        }
    }
    let mut all = Vec::new();
    for operation in TIMED {
        let [first, control] = [0, 1].map(|state: usize| &times[state][operation][..]);
        for state in 2..QUIET {
            let (seen, limit) = compare(&times[state][operation], first, control);
            let what = format!("{}, the other {}", OPERATIONS[operation], STATES[state]);
            all.push((what, seen, limit));
        }
    }
    // The state of its own memory is no secret to a program.
    let (seen, limit) = compare(&times[0][0], &times[0][2], &times[1][2]);
    all.push(("own pages compressed".into(), seen, limit));
    all
}

/// What is a difference stays one: only what is seen three times in a row, to the same side, is.
#[test]
fn neighbours_learn_nothing() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("neighbours");
    let mut last = String::new();
    let mut suspects: Option<Vec<(String, bool)>> = None;
    let mut own_was_seen = false;
    for _ in 0..TRIES {
        let mut all = time(&place);
        last = format!("{all:#?}");
        let (_, own, limit) = all.pop().expect("the last");
        own_was_seen |= own > limit;
        all.retain(|(_, seen, limit)| seen.abs() > *limit);
        let mut seen: Vec<_> = all
            .into_iter()
            .map(|(what, seen, _)| (what, seen > 0.0))
            .collect();
        if let Some(before) = suspects {
            seen.retain(|one| before.contains(one));
        }
        suspects = Some(seen);
        if own_was_seen && suspects.as_ref().is_some_and(Vec::is_empty) {
            eprintln!("{last}");
            return;
        }
    }
    assert!(own_was_seen, "a difference would not be seen: {last}");
    panic!("seen {TRIES} times: {suspects:?}; the last time: {last}");
}
