//! What the kernel's machine is made of: frames and their limit, staging, storage frames, chunks, a
//! clock.
//!
//! ```text
//!  ram       page frames, of which so many may be used      places and staging slots hold numbers
//!  storage   frames lent to compressed storage              counted against the same limit
//!  chunks    memory for tables, refused once for each kind of table in turn
//!  clock     goes on with the steps; jumps; stands still
//! ```
//!
//! Everything is in cells: simulated threads are coroutines of one thread, and nothing here takes a
//! step while it is in the middle of a change.

mod chunks;
mod clock;
mod ram;
mod staging;
mod storage_frames;

pub use chunks::{Chunks, Table};
pub use clock::Clock;
pub use ram::{FrameNumber, Limit, Ram};
pub use staging::{Stage, Staging};
pub use storage_frames::StorageFrames;
