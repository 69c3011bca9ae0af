//! A write-back tier: compressed pages of a memory go to a file or block device, and come back.
//!
//! What zram writes back it writes as pages, each to a block. Here *compressed* bytes are written, of whatever length,
//! many at a time:
//!
//! ```text
//!   put ─▶ sealed in the buffer ── full ──▶ ┌ segment 0 ┬ segment 1 ┬ segment 2 ┬ …
//!   get ◀── opened ◀── read ─────────────── │ rec rec … │   free    │ rec … rec │    log-structured (`writer.rs`)
//!   remove: the record's row is free        └───────────┴───────────┴───────────┴ …
//! ```
//!
//! What a tier promises:
//!
//! * **No wrong byte.** A record is returned as it was taken, or an error is. Each is encrypted and authenticated under
//!   a number that is used once (`seal.rs`), of which the tables in memory know: rotten, torn, misdirected and replayed
//!   records do not open.
//! * **Nothing else is lost.** A record is taken or refused; one that was taken is in memory until the device has taken
//!   it. One that cannot be read back is given up alone.
//! * **Nothing to read for others.** What is on the device is of use only with the key of the run, which is never
//!   written. Lengths of records cannot be seen, but how much is written, and when.
//! * **A budget.** No more bytes are written in a day than were allowed, cleaning included.
//!
//! A [`Tier`] is one thread's. Where several threads read, its parts stand by themselves: the tables ([`Records`]) behind a
//! lock of the caller's, one [`Writer`], and [`read`] for everybody. No lock is held while a device works, or a cipher.
//!
//! It allocates nothing, knows no clock, file or thread: the [`Device`] is the caller's, and so is all [`Memory`].
//! Nothing outlives the tier: without its tables no record can be found.
//!
//! Invariants, beside those of `seal.rs`:
//! * L1 A segment is written if and only if one of its records is live, unless it is kept for others.
//! * L2 A live record is in the buffer, in a written segment, or lost.
//! * L3 Records lie in a segment in the order of its ring, and do not overlap.
//! * L4 After each call a segment is free: cleaning needs one.
//! * L5 While anything is written one free segment keeps its space, the *reserve*: where the device has no space for
//!   another, half-dead segments are cleaned with it. It is made with the first segment, and holds nothing.
#![no_std]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod budget;
mod counts;
mod device;
mod handle;
mod memory;
mod reader;
mod records;
mod seal;
mod tier;
mod writer;

pub use counts::Counts;
pub use device::{Device, DeviceError};
pub use handle::{Handle, Refused, Unreadable};
pub use memory::{Memory, Segment, Slot};
pub use reader::read;
pub use records::{Access, Records};
pub use seal::{Key, Opener};
pub use tier::Tier;
pub use writer::{Writer, discard_freed};

/// Bytes that a record is longer by where it is sealed.
pub const SEAL_BYTES: usize = seal::TAG_BYTES;
