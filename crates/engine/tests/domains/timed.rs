//! What a domain can time does not depend on what another keeps compressed, beyond noise.
//!
//! Nothing is compared with a clock's absolute reading. The states take turns, and each is compared
//! with the first in the same round; how much two turns in one and the same state differ is the noise.

use crate::machine::*;
use crate::measure::{OPERATIONS, Probe, median};
use crate::neighbour::{Neighbour, State, share};

const THEIRS: u64 = 600;
const ROUNDS: usize = 30;

/// The first two are alike: the control.
const STATES: [State; 5] = [
    State::Resident,
    State::Resident,
    State::Compressed,
    State::Incompressible,
    State::Zeros,
];

/// A difference is seen if it is larger than so many times the noise ...
const NOISE: f64 = 8.0;
/// ... and than this share of what is measured.
const SHARE: f64 = 0.1;

fn differences(of: &[f64], from: &[f64]) -> Vec<f64> {
    of.iter().zip(from).map(|(a, b)| a - b).collect()
}

/// What a difference must exceed to be seen.
fn limit(first: &[f64], control: &[f64]) -> f64 {
    let noise = differences(control, first).into_iter().map(f64::abs);
    (NOISE * median(noise.collect())).max(SHARE * median(first.to_vec()))
}

#[test]
fn a_domain_times_the_same_whatever_state_another_is_in() {
    spaciously(|| {
        let source = Source::new(3000);
        let mut ours = Domain::new(share(source, 1500));
        let mut theirs = Neighbour::new(share(source, 1500), THEIRS);
        let probe = Probe::new(&mut ours);
        let mut times = [const { [const { Vec::new() }; OPERATIONS.len()] }; STATES.len()];
        let mut own = [const { Vec::new() }; 2];
        for round in 0..ROUNDS {
            for turn in 0..STATES.len() {
                let state = (round + turn) % STATES.len();
                theirs.enter(STATES[state]);
                for (of, time) in times[state].iter_mut().zip(probe.visit(&mut ours)) {
                    of.push(time);
                }
            }
            for (of, time) in own.iter_mut().zip(probe.own_state(&mut ours)) {
                of.push(time);
            }
        }
        for (operation, name) in OPERATIONS.into_iter().enumerate() {
            let [first, control, others @ ..] = times.each_ref().map(|of| &of[operation]);
            let limit = limit(first, control);
            for (state, of) in STATES[2..].iter().zip(others) {
                let seen = median(differences(of, first));
                eprintln!("{name}, the other {state:?}: {seen:+.0} ns, limit {limit:.0}");
                assert!(
                    seen.abs() <= limit,
                    "{name}: the other domain is {state:?}: {seen:+.0} ns, limit {limit:.0}"
                );
            }
        }
        // That a difference would be seen: the state of its own memory is no secret to a domain.
        let limit = limit(&times[0][0], &times[1][0]);
        let seen = median(differences(&own[0], &own[1]));
        assert!(
            seen > limit,
            "own pages compressed: {seen:+.0} ns, limit {limit:.0}"
        );
    });
}
