//! Disks over NBD and what loads them, for the measurements of `cargo xtask bench disk`.
//!
//! | module | holds |
//! |---|---|
//! | [`server`] | `coldpress disk serve` and nbdkit, started and asked |
//! | [`fio`] | a run of fio, and what it tells |

pub mod fio;
pub mod server;
