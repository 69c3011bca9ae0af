//! `cargo xtask sim`: the engine and the pager on simulated machines, with faults of every kind.
//!
//! The simulation is a program of its own, built with every assertion and as fast as can be (the
//! profile `sim`); what it takes, it says itself: `cargo xtask sim --help`.

use anyhow::{Context, Result};
use coldpress_harness::workspace;

/// Options of the simulation, which it reads itself.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// --seed N, --steps N, --mode kernel|pager and others: see --help.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds the simulation and runs it; 1 if it found something or a kind of fault never fired.
pub fn run(options: &Options) -> Result<u8> {
    let status = workspace::cargo()
        .args([
            "run",
            "--quiet",
            "--profile",
            "sim",
            "-p",
            "coldpress-sim",
            "--",
        ])
        .args(&options.arguments)
        .status()
        .context("cannot start cargo")?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1))
}
