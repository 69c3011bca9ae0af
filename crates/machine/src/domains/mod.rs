//! Several security domains on one machine: neighbours, a service that both use, and what can be measured.

pub mod machine;
pub mod measure;
pub mod neighbour;
pub mod service;
