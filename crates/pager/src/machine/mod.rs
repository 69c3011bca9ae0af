//! What the pager asks of the machine, and Linux as one.

pub mod fault_trace;
pub mod futex;
pub mod late;
pub mod linux;
pub mod lock_trace;
pub mod memory_group;
pub mod message;
pub mod os;
pub mod ranked_lock;
pub mod ranks;
pub mod run_file;
pub(crate) mod together;
pub(crate) mod visit;
