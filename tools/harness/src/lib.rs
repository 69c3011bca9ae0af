//! What the promises (`crates/promises`), the tools (`tools`) and the tasks of the repository (`xtask`) share.
//!
//! | module | holds |
//! |---|---|
//! | [`cleanup`] | what is undone on every way out, Ctrl-C and panics included |
//! | [`child`], [`group`], [`process`] | processes we start, alone or with all that they start, and what `/proc` says of any process |
//! | [`cgroup`] | a memory cgroup of our own, with a limit |
//! | [`managed`] | the command line of `coldpress run` and the statistics it leaves |
//! | [`figures`] | medians and quantiles |
//! | [`install`] | missing programs by `apt-get`, missing toolchain parts by `rustup` and `cargo` |
//! | [`workspace`] | where things are, and building them |
//! | [`text`] | tables, bars, sparklines, byte and time units; [`progress`] the moving line; [`output`] JSON that the user names |
//!
//! Results go to standard output, messages and progress to standard error.
//!
//! Deliberately absent: what is measured or shown, and any knowledge of the pager but the command line of `coldpress run`.

pub mod cgroup;
pub mod child;
pub mod cleanup;
pub mod figures;
pub mod group;
pub mod install;
pub mod managed;
pub mod output;
pub mod process;
pub mod progress;
pub mod text;
pub mod workspace;
