//! What the pager asks of the machine, and Linux as one.

pub mod filter;
pub mod futex;
pub mod late;
pub mod linux;
pub mod lock_trace;
pub mod maps;
pub mod message;
pub mod os;
pub(crate) mod proc_stat;
pub mod run_file;
pub mod sys;
pub mod text;
