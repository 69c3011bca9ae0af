//! The tests of the tier, one program.

mod common;

mod budget;
mod canary;
mod faults;
mod model;
mod shared;
mod space;
