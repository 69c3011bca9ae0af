//! The engine as a pager on Linux has it, on a machine in memory.

mod ageing;
mod caretaker;
mod compaction;
mod forking;
mod installing;
mod mended;
mod metadata;
mod metrics;
mod model;
mod overtaken;
mod patience;
mod queues;
mod queues_model;
mod queues_stress;
mod read_ahead;
mod recode;
mod stress;
mod triggers;
mod wake;
mod write_back;
mod zircon_evictor;
mod zircon_queues;
