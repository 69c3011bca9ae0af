//! The address space of the program: windows, what is registered, what is never taken.

pub mod discovery;
pub mod exclusions;
pub mod hysteresis;
pub(crate) mod mapping_content;
pub(crate) mod mapping_count;
pub mod not_inherited;
pub mod paging;
pub(crate) mod shared;
pub mod tier;
mod unproven;
pub mod windows;
pub mod workplace;
