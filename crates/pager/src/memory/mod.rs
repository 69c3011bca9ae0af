//! Memory of the pager itself.

pub(crate) mod areas;
pub(crate) mod frame_counts;
pub(crate) mod frames;
pub mod own;
