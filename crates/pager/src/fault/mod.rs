//! Faults and changes: handlers, which of them look, what holds faults back.

pub mod back_pressure;
pub(crate) mod changes;
pub mod deferred;
pub mod duty;
pub mod handler;
pub mod populating;
pub mod requests;
pub mod unregistering;
