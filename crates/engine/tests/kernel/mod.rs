//! VMOs on a machine that owns its pages, as a kernel does: what tests of them stand on.
#![allow(dead_code, reason = "each test file uses what it needs")]

#[path = "../machine/frames.rs"]
mod frames;
#[path = "../kit/mod.rs"]
mod kit;
mod machine;
mod random;
#[path = "../machine/spin_lock.rs"]
mod spin_lock;
mod system;

pub use kit::*;
pub use machine::*;
#[allow(unused_imports, reason = "each test file uses what it needs")]
pub use random::*;
pub use spin_lock::SpinLock;
pub use system::*;
