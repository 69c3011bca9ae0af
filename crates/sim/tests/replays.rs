//! A seed says everything: the same one does the same again, another one does something else.

use coldpress_sim::{Mode, Settings, run};

const STEPS: u64 = 100_000;

fn hash(mode: Mode, seed: u64) -> u64 {
    let report = run(&Settings::new(mode, seed, STEPS), |_| ()).unwrap_or_else(|failure| {
        panic!("{}\n{}", failure.found, failure.transitions);
    });
    assert!(report.steps >= STEPS);
    report.hash
}

#[test]
fn the_same_seed_does_the_same_again() {
    for mode in Mode::ALL {
        assert_eq!(hash(mode, 3), hash(mode, 3), "{}", mode.name());
        assert_ne!(hash(mode, 3), hash(mode, 4), "{}", mode.name());
    }
}

#[test]
fn a_world_is_the_same_without_those_before_it() {
    for mode in Mode::ALL {
        let short = Settings {
            world_steps: 10_000,
            // A world goes on until its threads have ended: three of them at the least.
            ..Settings::new(mode, 5, 60_000)
        };
        let mut hashes = Vec::new();
        run(&short, |report| hashes.push(report.hash)).unwrap();
        let alone = Settings {
            first_world: 2,
            steps: 10_000,
            ..short
        };
        let last = run(&alone, |_| ()).unwrap();
        let of_third = hashes[2] ^ hashes[1].rotate_left(7);
        assert_eq!(last.hash, of_third, "{}", mode.name());
    }
}
