//! What is told: figures, traces.

pub mod account;
pub mod decision_trace;
pub mod describe;
pub mod statistics;
