//! What a domain can time does not depend on what another keeps compressed, beyond noise.
//!
//! Nothing is compared with a clock's absolute reading. The states take turns, and each is compared
//! with the first in the same round; how much two turns in one and the same state differ is the noise.

use coldpress_engine::domain_frames::DomainFrames;
use coldpress_machine::domains::machine::*;
use coldpress_machine::domains::measure::{OPERATIONS, Probe, Wash, median, order};
use coldpress_machine::domains::neighbour::{Neighbour, State, share};

const THEIRS: u64 = 600;
const ROUNDS: usize = 24;
const TRIES: usize = 3;

type Share = DomainFrames<'static, Source>;

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

/// What was measured: the median difference, and what it must exceed to be seen.
type Seen = (String, f64, f64);

/// Measures all rounds: what must not be seen, and, as the last, what must be.
fn measure(ours: &mut Domain<Share>, theirs: &mut Neighbour<Share>, probe: &Probe) -> Vec<Seen> {
    let mut wash = Wash::new();
    let mut times = [const { [const { Vec::new() }; OPERATIONS.len()] }; STATES.len()];
    let mut own = [const { Vec::new() }; 2];
    for round in 0..ROUNDS {
        for state in order(round, STATES.len()) {
            theirs.enter(STATES[state]);
            wash.wash();
            for (of, time) in times[state].iter_mut().zip(probe.visit(ours)) {
                of.push(time);
            }
        }
        for (of, time) in own.iter_mut().zip(probe.own_state(ours)) {
            of.push(time);
        }
    }
    let mut all = Vec::new();
    for (operation, name) in OPERATIONS.into_iter().enumerate() {
        let [first, control, others @ ..] = times.each_ref().map(|of| &of[operation]);
        for (state, of) in STATES[2..].iter().zip(others) {
            let what = format!("{name}, the other {state:?}");
            all.push((what, median(differences(of, first)), limit(first, control)));
        }
    }
    // The state of its own memory is no secret to a domain.
    let own = median(differences(&own[0], &own[1]));
    all.push((
        "own pages compressed".into(),
        own,
        limit(&times[0][0], &times[1][0]),
    ));
    all
}

/// What is a difference stays one: only what is seen three times in a row, to the same side, is.
#[test]
fn a_domain_times_the_same_whatever_state_another_is_in() {
    spaciously(|| {
        let source = Source::new(3000);
        let mut ours = Domain::new(share(source, 1500));
        let mut theirs = Neighbour::new(share(source, 1500), THEIRS);
        let probe = Probe::new(&mut ours);
        let mut last = String::new();
        let mut suspects: Option<Vec<(String, bool)>> = None;
        let mut own_was_seen = false;
        for _ in 0..TRIES {
            let mut all = measure(&mut ours, &mut theirs, &probe);
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
    });
}
