//! Machines in memory that the engine's tests and examples stand on. No product has them.
//!
//! | module | what it is |
//! |---|---|
//! | [`mapped`] | a program's memory behind a gate, as the pager has it; checks the contract of `Host` |
//! | [`kernel`] | VMOs on a machine that owns its pages, as a kernel does |
//! | [`lean`] | the least that VMOs run on: what is measured there is the engine |
//! | [`domains`] | several security domains on one machine, and who spies on whom |
//! | [`frames`], [`spin_lock`], [`kit`] | what these share |

pub mod domains;
pub mod frames;
pub mod kernel;
pub mod kit;
pub mod lean;
pub mod mapped;
pub mod spin_lock;
