//! `cargo xtask promtool`: Prometheus' own checker on the figures of a program that runs.
//!
//! It is no part of `cargo xtask test`, since its package is large (96 MB) and has a service, which is not started. There the
//! reference parsers in Python read the same figures.

use crate::steps::{self, Step};
use anyhow::Result;
use coldpress_harness::install::{self, Package, program};

/// Options of the task.
#[derive(clap::Args, Debug)]
pub struct Options {}

const PACKAGES: &[Package] = &[install::GCC, program("prometheus", "promtool")];

/// Runs the check; 1 if it found something.
pub fn run(_options: &Options) -> Result<u8> {
    install::packages(PACKAGES)?;
    steps::run(&[
        Step::new(
            "The command and the preload library",
            "build --release -p coldpress-cli -p coldpress-preload",
        ),
        Step::new(
            "promtool on the figures of a program that runs",
            "test -p coldpress-cli --test cli -- --ignored --show-output metrics::promtool",
        ),
    ])
}
