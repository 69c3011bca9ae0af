//! What a program can count and time of its own memory does not depend on what another one, under a
//! pager of its own, keeps compressed. What is counted is compared exactly; what is timed is held
//! against how much two turns in one and the same state differ, and against no clock.

use coldpress_promises::neighbours::{OPERATIONS, PAGES, STATES, Samples, measure};
use coldpress_promises::{Workplace, managed, skip};

const ROUNDS: usize = 12;
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

#[test]
fn neighbours_learn_nothing() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("neighbours");
    let Samples { times, counted } =
        measure(&managed::binary(), &place, ROUNDS, QUIET, |_| {}).expect("two processes");
    for (state, counted) in STATES.iter().zip(&counted[..QUIET]) {
        assert_eq!(
            *counted,
            [(PAGES, PAGES); ROUNDS],
            "own pages out and own faults, while the other is {state}"
        );
    }
    for operation in TIMED {
        let [first, control] = [0, 1].map(|state: usize| &times[state][operation][..]);
        for state in 2..QUIET {
            let (seen, limit) = compare(&times[state][operation], first, control);
            let said = format!(
                "{}, the other {}: {seen:+.0} ns of {:.0}, limit {limit:.0}",
                OPERATIONS[operation],
                STATES[state],
                median(first.to_vec())
            );
            eprintln!("{said}");
            assert!(seen.abs() <= limit, "{said}");
        }
    }
    // That a difference would be seen: the state of its own memory is no secret to a program.
    let (compressed, resident) = (&times[0][0], &times[0][2]);
    let (seen, limit) = compare(compressed, resident, &times[1][2]);
    assert!(
        seen > limit,
        "own pages compressed: {seen:+.0} ns, limit {limit:.0}"
    );
}
