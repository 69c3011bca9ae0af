//! What is set: configuration, what of it may change, watermarks.

pub mod config;
pub mod control;
pub(crate) mod watermarks;
