//! A deterministic machine for the engine: simulated threads under a seeded scheduler, a machine
//! that fails in every way it may, and a model that knows what each page must hold.
//!
//! ```text
//!  run ── world after world, each with a seed of its own ──▶ report, or the first failure
//!           │
//!           ├ simulation   threads (coroutines), strategy, random numbers, trace      schedule.rs
//!           ├ machine      a kernel for the engine (`Host`), or below the pager (`Os`)   machine/, kernel/, pager/
//!           ├ injections   what goes wrong, by name, counted                          inject.rs
//!           ├ engine       the real one, with a codec that is disturbed               codec.rs
//!           └ model        what a read must return                                    model.rs
//! ```
//!
//! A run of N steps is a row of *worlds* of some hundred thousand steps: each is built anew (so that
//! tables grow, and are refused memory, again and again), with another number of pages and threads,
//! another storage, another strategy every few thousand steps; at its end everything is looked at
//! and given back. The seed of a run and the number of a world say everything that happens in it:
//! a failure is brought back by these two.
//!
//! What the protocol may rely on in a machine, and on nothing else:
//! * a wake may be lost, doubled, or come for nothing: whoever sleeps looks again after a bounded
//!   time, and whenever it is woken;
//! * `take`, `install` and `poison` act on one page at once, and in one order for all threads;
//! * the clock never goes back. It may stand still, and it may jump.
//!
//! It is never linked into a product.
#![deny(missing_docs)]

pub mod codec;
mod content;
mod damage;
mod failure;
pub mod inject;
mod kernel;
mod lifetime;
mod lock;
mod machine;
mod mode;
mod model;
mod pager;
mod random;
mod reclaim;
pub mod report;
pub mod sabotage;
mod schedule;
mod settings;
mod strategy;
mod trace;
mod versions;

pub use failure::Failure;
pub use mode::Mode;
pub use report::Report;
pub use settings::Settings;

use random::mix;
use schedule::Simulation;

/// What a kernel has in a static, the engine and its tables, is made on the stack here, and in a
/// debug build moved about there several times.
const STACK_BYTES: usize = 64 << 20;

/// Runs worlds until they have made so many steps together. `progress` is told after each. All of
/// it on one thread of its own.
///
/// # Errors
/// The first failure.
///
/// # Panics
/// If the machine has no thread for it.
pub fn run(
    settings: &Settings,
    progress: impl FnMut(&Report) + Send,
) -> Result<Report, Box<Failure>> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || run_worlds(settings, progress));
        let result = thread.expect("a thread").join();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_worlds(
    settings: &Settings,
    mut progress: impl FnMut(&Report),
) -> Result<Report, Box<Failure>> {
    let mut report = Report::new(settings);
    let mut world = settings.first_world;
    let world_steps = settings.world_steps.min(settings.steps);
    while report.steps < settings.steps {
        let simulation = Simulation::new(mix(settings.seed ^ mix(world)), world_steps);
        simulation.trace.follow.set(settings.follow);
        for &kind in &settings.without {
            simulation.injections.forbid(kind);
        }
        // SAFETY: it lives until the end of this turn, as the guard does.
        let entered = unsafe { simulation.enter() };
        let result = match settings.mode {
            Mode::Kernel => schedule::caught(|| kernel::run(&simulation, settings)),
            Mode::Pager => schedule::caught(|| pager::run(&simulation, settings)),
        };
        if let Err(found) = result {
            let failure = Failure::of(&simulation, found, settings.seed, world);
            // Threads that stand in the middle of something may still name it.
            drop(entered);
            std::mem::forget(simulation);
            return Err(Box::new(failure));
        }
        report.add(&simulation);
        drop(entered);
        progress(&report);
        world += 1;
    }
    Ok(report)
}
