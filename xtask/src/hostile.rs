//! `cargo xtask hostile`: programs that do to themselves what a pager inside them must survive.
//!
//! Each is a promise whose file name begins with `hostile_` (`crates/promises/tests/promises`): it runs a small program natively
//! and under `coldpress run`, and demands the same outcome. The rows of the table in `docs/limits.md` name them. `cargo
//! xtask test` runs them too, among all promises.

use crate::promises;
use crate::steps::{self, Step};
use anyhow::Result;
use coldpress_harness::install;
use coldpress_harness::workspace;

/// Options of the hostile task.
#[derive(clap::Args, Debug)]
pub struct Options {}

/// Runs them all; 1 if one failed.
pub fn run(_options: &Options) -> Result<u8> {
    install::packages(promises::PACKAGES)?;
    let binary = workspace::target_dir()?.join("release/coldpress");
    steps::run(&[
        Step::new(
            "The command and the preload library",
            "build --release -p coldpress-cli -p coldpress-preload",
        ),
        promises::hostile(&binary.display().to_string())?,
    ])
}
