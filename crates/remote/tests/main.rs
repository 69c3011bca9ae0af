//! The tests of the tier on another machine, one program: on a store in memory, and on real servers, which each test
//! starts for itself and stops by its process id.

mod common;

#[cfg(feature = "redis")]
mod cluster;
#[cfg(feature = "redis")]
mod disk;
mod line;
mod local;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_refuses;
#[cfg(feature = "s3")]
mod s3;
