//! What the tests stand on.

pub mod client;
#[path = "../../examples/memory_disk/memory.rs"]
pub mod memory;
pub mod messages;
pub mod model;
pub mod served;
pub mod tool;
