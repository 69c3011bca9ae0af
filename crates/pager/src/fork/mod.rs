//! Fork: stillness, journal, the pager of the child.

pub(crate) mod child;
pub mod protocol;
pub(crate) mod put_back;
pub mod unannounced;
