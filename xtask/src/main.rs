//! Tasks of the repository: `cargo xtask demo`, `cargo xtask test`, `cargo xtask bench first`,
//! `cargo xtask corpus`, `cargo xtask miri`, `cargo xtask fuzz`, `cargo xtask verify`.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@test`] | everything that must pass before a change is kept |
//! | [`steps`] | cargo commands in order, and counting what tests say they did |
//! | [`promises`], [`hostile`] | the tests of the finished command on real programs; of them those hard to survive |
//! | [`miri`], [`fuzz`] | the codecs and storages under Miri, codecs and NBD server under libFuzzer |
//! | [`sim`] | the engine and the pager on simulated machines, a program of its own |
//! | [`reverts`] | fixes of the pager taken back, each found by the simulation |
//! | [`promtool`] | Prometheus' own checker on the figures of `coldpress metrics` |
//! | [`book`] | the documents as a book, and what they link to |
//! | [`package`] | a Debian package and a tarball, and their use in a clean root; installing below a prefix |
//!
//! What measures and shows is in `tools`: [`coldpress_bench`] (with [`security`] and [`lazyfree`]),
//! [`coldpress_programs`] (with [`suites`] and [`verify`]), [`coldpress_demo`], [`coldpress_corpus`]. All stand on
//! [`coldpress_harness`].
//!
//! Results go to standard output, messages and progress to standard error.

mod book;
mod fuzz;
mod hostile;
mod miri;
mod package;
mod promises;
mod promtool;
mod reverts;
mod sim;
mod steps;
mod test;

use clap::{Parser, Subcommand};
use coldpress_bench::{self as bench, lazyfree, security};
use coldpress_corpus as corpus;
use coldpress_demo as demo;
use coldpress_harness::cleanup;
use coldpress_programs::{self as programs, suites, verify};
use std::process::ExitCode;

/// Tasks of the Coldpress repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show redis holding its data in less memory, and check every byte of it.
    Demo(demo::Options),
    /// Run every check and every test.
    Test(test::Options),
    /// Measure.
    #[command(subcommand)]
    Bench(bench::Which),
    /// Capture the pages of real programs, for coldpress eval.
    Corpus(corpus::Options),
    /// Run the tests of the codecs and storages under Miri.
    Miri(miri::Options),
    /// Run the engine on a simulated machine, with faults of every kind.
    Sim(sim::Options),
    /// Take fixes of the pager back, and show the seeds by which the simulation finds them.
    Reverts(reverts::Options),
    /// Show real programs under a small budget, with the output that they have natively.
    Programs(programs::Options),
    /// Verify evict and restore cycles, by the million, on a program that knows its pages.
    Verify(verify::Options),
    /// Run the programs that do to themselves what a pager inside them must survive.
    Hostile(hostile::Options),
    /// Run the test suites of other projects, natively and under coldpress run.
    Suites(suites::Options),
    /// Measure what one security domain can time of another.
    Security(security::Options),
    /// Run LazyFree's own test program, from a checkout of it, on our cache.
    Lazyfree(lazyfree::Options),
    /// Have promtool check the figures of coldpress metrics.
    Promtool(promtool::Options),
    /// Fuzz the codecs and the NBD server, one target after the other.
    Fuzz(fuzz::Options),
    /// Make a book of the documents, target/book/index.html.
    Book(book::Options),
    /// Make a Debian package and a tarball.
    Package(package::Options),
    /// Build and install below a prefix: command, pager's library, cache's library, headers, manual pages.
    Install(package::InstallOptions),
    /// Remove what install has put there.
    Uninstall(package::UninstallOptions),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    cleanup::install();
    let outcome = match arguments.task {
        Task::Demo(options) => demo::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Bench(which) => bench::run(&which),
        Task::Corpus(options) => corpus::run(&options),
        Task::Miri(options) => miri::run(&options),
        Task::Sim(options) => sim::run(&options),
        Task::Reverts(options) => reverts::run(&options),
        Task::Programs(options) => programs::run(&options),
        Task::Verify(options) => verify::run(&options),
        Task::Security(options) => security::run(&options),
        Task::Hostile(options) => hostile::run(&options),
        Task::Suites(options) => suites::run(&options),
        Task::Lazyfree(options) => lazyfree::run(&options),
        Task::Promtool(options) => promtool::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Book(options) => book::run(&options),
        Task::Package(options) => package::run(&options),
        Task::Install(options) => package::install(&options),
        Task::Uninstall(options) => package::uninstall(&options),
    };
    let code = match outcome {
        Ok(code) => code,
        Err(error) => {
            cleanup::park_if_stopping();
            eprintln!("error: {error:#}");
            1
        }
    };
    cleanup::run_all();
    ExitCode::from(code)
}
