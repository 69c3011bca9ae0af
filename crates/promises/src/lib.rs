//! The promises of Coldpress, each a test on a real program.
//!
//! A promise is a file in `tests/promises/`, named after what it promises. Most of them run a C program
//! out of `programs/` under `coldpress run` and believe its verdict: every program knows what
//! each of its pages must hold, verifies it, and exits 0 after `OK ...` or 1 after `WRONG: ...`.
//! All of them pass natively (`tests/promises/programs_pass_natively.rs`), so that a failure under
//! `coldpress run` is the pager's.
//!
//! * [`hazards`]: the table of hazard programs with the arguments and budgets they run under;
//! * [`workplace`]: a world-readable directory a test, and the compiler calls that fill it;
//! * [`managed`]: one call of `coldpress run`, as root or as nobody, and where its binary is;
//! * [`machine`]: what a test takes of the machine and gives back;
//! * [`neighbours`]: two processes side by side, and what one can time of the other;
//! * [`process`]: running a command with a time limit, and what a stuck one is waiting for;
//! * [`statistics`]: the JSON that `--stats` writes;
//! * [`verify`]: the rounds of the program that verifies every page, by the million;
//! * [`workload`]: real programs whose output must not differ from native;
//! * [`written_back`]: a program that does not fit into its budget even compressed;
//! * [`skip`]: saying loudly that this machine cannot show something.
//!
//! Environment: `COLDPRESS_BIN` names the `coldpress` binary (otherwise `release/coldpress` in
//! the target directory; the preload library lies beside it). `COLDPRESS_FORBID_SKIPS=1` turns
//! every skip into a failure.
//!
//! Deliberately absent: any knowledge of how the pager works. Tests see its exit status, its
//! statistics and the program's bytes.

pub mod hazards;
pub mod machine;
pub mod managed;
pub mod neighbours;
pub mod process;
pub mod skip;
pub mod statistics;
pub mod verify;
pub mod workload;
pub mod workplace;
pub mod written_back;

pub use managed::Managed;
pub use process::Outcome;
pub use statistics::Statistics;
pub use workplace::Workplace;
