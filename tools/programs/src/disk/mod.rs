//! Disks over NBD and what loads them: for [`verify`], and for the measurements of `cargo xtask bench disk`.
//!
//! | module | holds |
//! |---|---|
//! | [`server`] | `coldpress disk serve` and nbdkit, started and asked |
//! | [`fio`] | a run of fio, and what it tells |
//! | [`verify`] | `cargo xtask verify --disk` |

pub mod fio;
pub mod server;
pub mod verify;
