//! What is told of a failure: the seed that brings it back, the step, and what was done to the page
//! concerned.

use crate::schedule::Simulation;
use coldpress_engine::Place;
use std::cell::Cell;
use std::fmt::Write;

thread_local! {
    static PAGE: Cell<Place> = const { Cell::new((0, 0)) };
}

/// What goes wrong from here on concerns this page.
pub fn about(place: Place) {
    PAGE.set(place);
}

/// Something is not as it must be with this page.
pub fn fail(place: Place, what: &str) -> ! {
    about(place);
    panic!("page {place:?}: {what}");
}

/// A failed run.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was found.
    pub found: String,
    /// Seed of the run.
    pub seed: u64,
    /// Which of its worlds.
    pub world: u64,
    /// Step of the world.
    pub step: u64,
    /// The latest transitions: of the page concerned, and of all.
    pub transitions: String,
}

/// Latest steps of all threads that are told.
const LATEST: usize = 40;

impl Failure {
    /// What is known of it.
    pub fn of(simulation: &Simulation, found: String, seed: u64, world: u64) -> Self {
        let mut transitions = String::new();
        let place = PAGE.replace((0, 0));
        if place.0 != 0 {
            let _ = writeln!(transitions, "Latest of page {place:?}:");
            for event in simulation.trace.of_page(place.0, place.1) {
                let _ = writeln!(transitions, "{event}");
            }
        }
        let _ = writeln!(transitions, "Asleep: {}", simulation.sleepers());
        let _ = writeln!(transitions, "Latest of all:");
        for event in simulation.trace.latest(LATEST) {
            let _ = writeln!(transitions, "{event}");
        }
        Self {
            found,
            seed,
            world,
            step: simulation.steps(),
            transitions,
        }
    }
}
