//! What a domain can time of its own memory, by the state that another domain's memory is in; and what
//! remains: a secret in one page with bytes that the attacker chooses.
//!
//! Prints samples as JSON; `cargo xtask security` compares them.
//!
//! `cargo run --release -p coldpress-engine --example security [-- ROUNDS]`

use coldpress_engine::Access;
use coldpress_machine::domains::machine::{Domain, Source, spaciously};
use coldpress_machine::domains::measure::{self, OPERATIONS, Probe, Wash, median, order};
use coldpress_machine::domains::neighbour::{Bare, Neighbour, State, share};
use coldpress_machine::domains::service::{Guard, calibrate, serve, token};
use coldpress_storage::FrameSource;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const OURS: usize = 1500;
const THEIRS: u64 = 2048;
const CANDIDATES: u64 = 16;

/// The states of the other domain. The first two are alike: the control.
const STATES: [(&str, State); 6] = [
    ("resident", State::Resident),
    ("resident again", State::Resident),
    ("compressed", State::Compressed),
    ("incompressible", State::Incompressible),
    ("zeros", State::Zeros),
    ("busy", State::Nothing),
];
/// The one in which it compresses and restores while it is measured, on another processor.
const BUSY: usize = 5;

type Samples = Vec<[Vec<f64>; OPERATIONS.len()]>;

/// Medians of each visit, by state and operation.
fn rounds<F: FrameSource + Send + 'static>(ours: F, theirs: F, rounds: usize) -> Samples {
    let mut ours = Domain::new(ours);
    let mut theirs = Neighbour::new(theirs, THEIRS);
    let probe = Probe::new(&mut ours);
    let mut wash = Wash::new();
    let mut samples: Samples = STATES.iter().map(|_| Default::default()).collect();
    for round in 0..rounds {
        for state in order(round, STATES.len()) {
            let times = match state {
                BUSY => while_busy(&mut theirs, || probe.visit(&mut ours)),
                _ => {
                    theirs.enter(STATES[state].1);
                    wash.wash();
                    probe.visit(&mut ours)
                }
            };
            for (of, time) in samples[state].iter_mut().zip(times) {
                of.push(time);
            }
        }
    }
    samples
}

fn while_busy<F: FrameSource + Send, R>(theirs: &mut Neighbour<F>, act: impl FnOnce() -> R) -> R {
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                theirs.enter(State::Compressed);
                begun.store(true, Relaxed);
            }
        });
        while !begun.load(Relaxed) {
            std::hint::spin_loop();
        }
        let result = act();
        done.store(true, Relaxed);
        result
    })
}

/// What an attacker made of the time that touches took.
struct Guessing {
    right_ns: Vec<f64>,
    wrong_ns: Vec<f64>,
    found: usize,
}

/// The secret is one of sixteen; the attacker has the page of each guess grow old, and takes that one for
/// right whose touch took longest.
fn guess(guard: Guard, trials: usize) -> Guessing {
    let mut domain = Domain::new(share(Source::new(200), 200));
    let noise_bytes = calibrate(&mut domain);
    let mut guessing = Guessing {
        right_ns: Vec::new(),
        wrong_ns: Vec::new(),
        found: 0,
    };
    for trial in 0..trials as u64 {
        let secret = trial.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
        let vmo = serve(
            &mut domain,
            noise_bytes,
            0..CANDIDATES,
            &token(secret),
            guard,
        );
        domain.send_away();
        let mut times = [0.0; CANDIDATES as usize];
        for n in 0..CANDIDATES {
            // In an order that has nothing to do with the secret's.
            let page = (n + trial) % CANDIDATES;
            times[page as usize] = measure::touch(&mut domain, vmo, page, Access::Read);
        }
        domain.destroy(vmo);
        let longest =
            (0..CANDIDATES).max_by(|a, b| times[*a as usize].total_cmp(&times[*b as usize]));
        guessing.found += usize::from(longest == Some(secret));
        guessing.right_ns.push(times[secret as usize]);
        let wrong = (0..CANDIDATES).filter(|n| *n != secret);
        guessing
            .wrong_ns
            .push(median(wrong.map(|n| times[n as usize]).collect()));
    }
    guessing
}

fn samples_json(name: &str, samples: &Samples) -> String {
    let states: Vec<String> = STATES
        .iter()
        .zip(samples)
        .map(|((state, _), of)| format!("{{\"state\":\"{state}\",\"samples\":{of:?}}}"))
        .collect();
    format!(
        "{{\"name\":\"{name}\",\"operations\":{OPERATIONS:?},\"states\":[{}]}}",
        states.join(",")
    )
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = match arguments.next().map(|rounds| rounds.parse()) {
        None => 200,
        Some(Ok(rounds)) if rounds > 0 && arguments.len() == 0 => rounds,
        _ => {
            eprintln!("usage: security [ROUNDS]");
            std::process::exit(125);
        }
    };
    let frames = OURS as u32 + THEIRS as u32 + 100;
    let shares = spaciously(|| {
        let source = Source::new(frames);
        let theirs = share(source, THEIRS as usize + 100);
        rounds(share(source, OURS), theirs, count)
    });
    let common = spaciously(|| {
        let source = Source::new(frames);
        rounds(Bare(source), Bare(source), count)
    });
    let guards = [Guard::None, Guard::OptOut, Guard::OwnPage].map(|guard| {
        let guessing = spaciously(|| guess(guard, count));
        format!(
            "{{\"guard\":\"{guard:?}\",\"candidates\":{CANDIDATES},\"trials\":{count},\"found\":{},\
             \"right_ns\":{:?},\"wrong_ns\":{:?}}}",
            guessing.found, guessing.right_ns, guessing.wrong_ns
        )
    });
    println!(
        "{{\"settings\":[{},{}],\"guesses\":[{}]}}",
        samples_json("two engines, a share of frames each", &shares),
        samples_json("two engines, frames in common", &common),
        guards.join(",")
    );
}
