//! What the engine asks of the machine it runs on, and what such machines can share: locks with ranks, budgets of frames.

pub mod domain_frames;
pub mod frame_budget;
pub mod freed_frames;
pub mod host;
pub mod lock;
pub mod memory;
pub mod protocol;
