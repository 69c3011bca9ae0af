//! What the tests stand on.

pub mod client;
pub mod messages;
pub mod model;
pub mod served;
pub mod tool;
