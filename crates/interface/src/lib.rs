//! What the pager inside a program and the tools outside it agree on.
//!
//! * [`config`]: the environment variables by which `coldpress run` configures the injected pager.
//! * [`statistics`]: the statistics page, a small shared file that every managed process keeps
//!   up to date and that any reader with the right to open it can map.
//! * [`histogram`]: the latency histogram inside that page.
//!
//! The crate is `no_std` and holds no pointer, no allocation and no system call, so that both
//! sides (a pager that may not allocate, a command that may) can use the same definitions.
#![no_std]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod config;
pub mod histogram;
pub mod statistics;

/// Bytes in a page. Coldpress supports x86_64, where it is always 4 KiB.
pub const PAGE_SIZE: usize = 4096;
