//! Start, sleep, departure.

pub mod departure;
pub mod dormant;
pub mod leave;
pub mod start;
pub mod watchdog;
