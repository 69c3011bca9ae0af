//! `cargo xtask bench …`: measurements. Nothing here decides whether something is good: it
//! prints what was seen, the other's advantages included.
//!
//! | module | holds |
//! |---|---|
//! | `first` | the first comparison: native, coldpress and kernel zram at the same memory held |
//! | `budget` | whether the budget is kept against a program that takes memory as fast as it can |
//! | `idle` | what the pager costs where it has nothing to do |
//! | `deadline` | a thread with deadlines beside memory that is compressed, and the pager's locks |
//! | `empty` | what memory costs that is dropped and touched again |
//! | `fault` | one fault, stage by stage, beside the least that a fault can cost and zram's |
//! | `fork` | what it costs that memory is shared with a child |
//! | `group` | a job that needs more than its memory group allows |
//! | `estimate` | whether `coldpress estimate` foretells what `coldpress run` then holds |
//! | `victims` | refaults of the engine and of published policies, on traces of touched pages |
//! | `watch` | a compiler that waits for files to change |
//! | `wake` | the first request after a program has slept |
//! | `disk` | the compressed RAM disk beside kernel zram, nbdkit and a plain file |
//! | `stepwise`, `machine` | their programs, steered and watched from outside; what they ran on |
//! | `run` | real programs: coldpress and kernel zram in turns, at the same memory |
//! | `calibrate` | the limit at which zram holds as much as coldpress |
//! | `pages` | the measured program, steered step by step |
//! | `zram`, [`cgroup`](coldpress_harness::cgroup) | the kernel's side: a device, swap on one, a memory limit of our own |
//! | `report` | the table and the JSON |
//! | [`security`] | `cargo xtask security`: what one security domain can time of another, and what remains |
//! | [`lazyfree`] | `cargo xtask lazyfree`: LazyFree's own test program on our cache |

mod budget;
mod calibrate;
mod deadline;
mod disk;
mod empty;
mod estimate;
mod fault;
mod first;
mod fits;
mod fork;
mod group;
mod idle;
pub mod lazyfree;
mod machine;
mod pages;
mod report;
mod run;
pub mod security;
mod stepwise;
mod victims;
mod wake;
mod watch;
mod zram;

/// The measurements.
#[derive(clap::Subcommand, Debug)]
pub enum Which {
    /// Random touches of one thread: native, under coldpress, under kernel zram.
    First(first::Options),
    /// Real programs: coldpress and kernel zram in turns, at the same memory.
    Run(run::Options),
    /// Whether the budget is kept against a program that takes memory as fast as it can.
    Budget(budget::Options),
    /// What the pager costs where it has nothing to do.
    Idle(idle::Options),
    /// A thread with deadlines beside memory that is compressed, and the pager's locks.
    Deadline(deadline::Options),
    /// What memory costs that is dropped and touched again, where nothing of it is away.
    Empty(empty::Options),
    /// One fault, stage by stage, beside the least that a fault can cost and zram's.
    Fault(fault::Options),
    /// What it costs that memory is shared with a child.
    Fork(fork::Options),
    /// A job that needs more than its memory group allows: killed, or saved.
    Group(group::Options),
    /// Whether coldpress estimate foretells what coldpress run then holds.
    Estimate(estimate::Options),
    /// What a compiler holds that waits for files to change.
    Watch(watch::Options),
    /// What the first request costs after a program has slept.
    Wake(wake::Options),
    /// The compressed RAM disk beside kernel zram, nbdkit and a plain file.
    Disk(disk::Options),
    /// Refaults of the engine and of published policies, on traces of touched pages.
    Victims(victims::Options),
}

/// Runs a measurement; 1 if it found wrong content.
pub fn run(which: &Which) -> anyhow::Result<u8> {
    match which {
        Which::First(options) => first::run(options),
        Which::Run(options) => run::run(options),
        Which::Budget(options) => budget::run(options),
        Which::Idle(options) => idle::run(options),
        Which::Deadline(options) => deadline::run(options),
        Which::Empty(options) => empty::run(options),
        Which::Fault(options) => fault::run(options),
        Which::Fork(options) => fork::run(options),
        Which::Group(options) => group::run(options),
        Which::Estimate(options) => estimate::run(options),
        Which::Watch(options) => watch::run(options),
        Which::Wake(options) => wake::run(options),
        Which::Disk(options) => disk::run(options),
        Which::Victims(options) => victims::run(options),
    }
}
