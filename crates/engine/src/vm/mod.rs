//! For hosts that own their pages: VMOs, memory pressure and what answers it, RFC-0219's queries.

pub mod caretaker;
pub mod evictor;
pub mod metrics;
pub mod pressure;
pub mod vmo;
