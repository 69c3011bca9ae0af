//! Tasks of the repository: `cargo xtask demo`, `cargo xtask test`, `cargo xtask bench first`,
//! `cargo xtask corpus`.
//!
//! | module | holds |
//! |---|---|
//! | [`demo`] | the demonstration on redis: fill, read back, compare, measure |
//! | [`mod@test`] | everything that must pass before a change is kept |
//! | [`mod@bench`] | measurements beside kernel zram |
//! | [`corpus`] | pages captured of real programs, for `coldpress eval` |
//! | [`cleanup`] | what is undone on every way out, Ctrl-C and panics included |
//! | [`install`] | missing programs by `apt-get`, missing toolchain parts by `rustup` |
//! | [`workspace`] | where things are, and building them |
//! | [`child`], [`process`] | processes we start, and what `/proc` says of any process |
//! | [`managed`] | the command line of `coldpress run` and the statistics it leaves |
//! | [`text`] | tables, bars, sparklines, byte and time units; [`progress`] the moving line |
//!
//! Results go to standard output, messages and progress to standard error.

mod bench;
mod child;
mod cleanup;
mod corpus;
mod demo;
mod install;
mod managed;
mod process;
mod progress;
mod test;
mod text;
mod workspace;

use clap::{Parser, Subcommand};
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    cleanup::install();
    let outcome = match arguments.task {
        Task::Demo(options) => demo::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Bench(which) => bench::run(&which),
        Task::Corpus(options) => corpus::run(&options),
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
