//! VMOs on a machine that owns its pages, as a kernel does: what tests of them stand on.
#![allow(dead_code, reason = "each test file uses what it needs")]

mod machine;
mod random;
mod system;

pub use crate::kit::*;
pub use crate::spin_lock::SpinLock;
pub use machine::*;
#[allow(unused_imports, reason = "each test file uses what it needs")]
pub use random::*;
pub use system::*;
