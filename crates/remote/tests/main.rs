//! The tests of the tier on another machine, one program: on a store in memory, and on real servers, which each test
//! starts for itself and stops by its process id.

// Not all of it is needed without real servers.
#[cfg_attr(not(all(feature = "redis", feature = "s3")), allow(dead_code))]
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
