//! What the pager inside a program and the tools outside it agree on.
//!
//! * [`config`]: the environment variables by which `coldpress run` configures the injected pager.
//! * [`run_file`]: the file of a run, with a slot for each managed process and a ring of messages.
//! * [`page`]: a slot of it: the statistics page, which every managed process keeps up to date; how it
//!   grows.
//! * [`statistics`]: the figures in it; [`histogram`]: the latency histogram among them.
//! * [`figures`]: the engine's figures and tunables in it, by name.
//! * [`mappings`]: the table of mappings in it, filled in on request.
//! * [`control`]: the block in it by which the pager is asked for something while it runs.
//! * [`triggers`]: what may make the pager compress.
//!
//! The crate is `no_std` and holds no pointer, no allocation and no system call, so that both
//! sides (a pager that may not allocate, a command that may) can use the same definitions.
#![no_std]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod config;
pub mod control;
pub mod figures;
pub mod histogram;
pub mod mappings;
pub mod page;
pub mod run_file;
pub mod statistics;
pub mod triggers;

/// Bytes in a page. Coldpress supports x86_64, where it is always 4 KiB.
pub const PAGE_SIZE: usize = 4096;
