//! VMOs on a machine that owns its pages, as a kernel does: what tests of them stand on.
mod machine;
mod random;
mod system;

pub use crate::kit::*;
pub use crate::spin_lock::SpinLock;
pub use machine::*;
pub use random::*;
pub use system::*;
