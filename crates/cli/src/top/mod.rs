//! `coldpress top`: the programs under a pager, live.
//!
//! | file | holds |
//! |---|---|
//! | `reading`, `history` | what is known of a program at one moment, and over time |
//! | `row`, `model` | programs with their rates, the order, what is chosen and shown |
//! | `column` | what the columns are, which of them fit |
//! | `input` | what a key does to the model |
//! | `draw`, `mappings_table`, `bottom`, `theme` | the model on a screen |
//! | `terminal`, `keyboard` | the terminal, and how it gets back what it was |
//! | `question` | what pagers are asked for meanwhile |
//! | `live`, `plain` | the loop with a terminal, and without one |
//!
//! It is behind the cargo feature `top`. ratatui is used without its standard library and with termion, since features of
//! crates that the pager shares must stay what they are (ADR 0036).

mod bottom;
mod column;
mod draw;
mod history;
mod input;
mod keyboard;
mod live;
mod mappings_table;
mod model;
mod plain;
mod question;
mod reading;
mod row;
#[cfg(test)]
mod snapshots;
mod terminal;
mod theme;

use crate::at_start;
use crate::duration;
use crate::refusal::Refusal;
use crate::streams;
use clap::Args;
use reading::Wanted;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Arguments of `coldpress top`.
#[derive(Debug, Args)]
pub struct TopArguments {
    /// Show these processes alone
    #[arg(value_name = "PID|PROGRAM")]
    processes: Vec<String>,
    /// Time between two readings
    #[arg(long, value_name = "DURATION", default_value = "1s", allow_hyphen_values = true, value_parser = duration::parse_milliseconds)]
    interval: u64,
    /// Print the table of coldpress status once
    #[arg(long)]
    once: bool,
    /// Print a line of JSON at every reading, with rates from the second on
    #[arg(long)]
    json: bool,
}

/// The help text behind the options.
pub const HELP: &str = "\
Keys: ↑ ↓ choose a program, Enter shows what its memory consists of, b sets its budget, < > sort, r reverses the \
order, ? explains, q ends.

Without a terminal (a pipe, a file) the table of coldpress status is printed at every interval.";

/// Shows the programs.
pub fn top(arguments: &TopArguments) -> Result<u8, Refusal> {
    let wanted = Wanted::new(&arguments.processes);
    let interval = Duration::from_millis(arguments.interval);
    if arguments.once || arguments.json || !is_terminal() {
        streams::check_output()?;
        return plain::run(&wanted, interval, arguments.once, arguments.json);
    }
    live::run(wanted, interval)
}

/// Whether there is somebody to look and to press keys.
fn is_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let closed = [libc::STDIN_FILENO, libc::STDOUT_FILENO]
        .into_iter()
        .any(at_start::was_closed);
    !is_dumb && !closed && io::stdin().is_terminal() && io::stdout().is_terminal()
}
