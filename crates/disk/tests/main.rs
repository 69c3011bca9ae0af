//! The tests of the disk, one program: they run in threads of one process.

mod cache;
mod common;

mod accounting;
mod limits;
mod model;
mod recompression;
mod snapshots;
mod threads;
mod volumes;
