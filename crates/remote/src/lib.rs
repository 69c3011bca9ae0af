//! A write-back tier on another machine: the segments of a [`Tier`](coldpress_tier::Tier) are objects of a store that
//! is there already, Redis or Valkey (a cluster of them, too), or one that is compatible with S3.
//!
//! ```text
//!   Tier ── write_at ─▶ gathered ── the next segment begins, or sync ──▶ put ─▶ PREFIX/RUN/SEGMENT    (`device.rs`)
//!     │                    │                          refused ╰─▶ fallback, a device on this machine
//!     ╰──── read_at ◀──────┴─ from where the segment is ◀──── ranged get
//!                 timeouts, retries, rest after failures (`line.rs`) · the client libraries (`redis.rs`, `s3.rs`)
//! ```
//!
//! What a [`RemoteDevice`] promises:
//!
//! * **Nothing that was taken is lost by a write that fails.** A segment stays in memory until the store, or the
//!   fallback, has taken it as a whole. Until then no other segment is taken.
//! * **Nothing is believed.** The tier seals its records before they come here, and checks them when they come back. A
//!   store that forgets, exchanges or changes objects costs the records in them, and returns no wrong byte.
//! * **Each call ends.** Connecting, sending and waiting for an answer have a time limit, and the number of attempts
//!   has one. After a failure writes are refused at once for a while, which grows ([`Patience`]).
//! * **Runs never meet.** Objects are named by 64 random bits. At the end of the run they are deleted.
//!
//! Invariants:
//! * R1 At most one segment is gathered. While it is not in the store or the fallback it is read from memory.
//! * R2 Of a segment in the fallback, what the store may have is not read.
//! * R3 A segment that may have an object in the store is marked so, before the first attempt to put it.
//!
//! What it deliberately does not have: threads, an asynchronous runtime, metadata in the store, a way to find the
//! objects of another run, a password in any message.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod bits;
mod counts;
mod device;
mod line;
mod location;
mod open;
mod probe;
mod random;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "s3")]
mod s3;
mod store;

pub use counts::{Counts, Figures, Latency};
pub use device::{Fallback, RemoteDevice};
pub use line::Patience;
pub use location::{Location, is_location, shown};
pub use open::{OpenError, open};
pub use store::{Failure, Store, StoreError};

#[cfg(feature = "redis")]
pub use redis::RedisStore;
#[cfg(feature = "s3")]
pub use s3::{Credentials, S3Store};
