//! An NBD server for exports that live in this process: plain sockets and threads, no asynchronous runtime.
//!
//! The protocol is that of `doc/proto.md` of the NBD project: fixed newstyle handshake, structured replies,
//! `base:allocation`. A disk implements [`Export`], a set of disks [`Exports`]; [`Server`] serves them on Unix sockets
//! and loopback addresses.
//!
//! ```text
//!             handshake ──────▶ session ──────▶ transmission
//!            (machine over     (one export,     (judge, perform,
//!               bytes)        what was agreed)   reply: bytes)
//!                 ▲                                  ▲
//!  server: listen ┴─ connection: threads that take turns at reading, and answer each on its own
//! ```
//!
//! | module | concept |
//! |---|---|
//! | `export` | what is served |
//! | `wire` | numbers of the protocol, fields |
//! | `violation` | ways to break the protocol |
//! | `limits` | what a client may take |
//! | `session` | what was agreed on |
//! | `handshake` | from the greeting to a session, a machine over bytes |
//! | `transmission` | requests and replies, over bytes |
//! | `counters` | figures |
//! | `converse` | both phases over any stream, one request at a time |
//! | `server` | sockets, threads, turns, time-outs |
//!
//! # What a client can rely on
//!
//! Requests of one connection are carried out at the same time and answered as they finish. A write is seen by what is
//! asked after it was answered, on any connection; a flush covers every write that was answered before it was sent.
//!
//! # What it deliberately does not do
//!
//! TLS and authentication: it listens on Unix sockets that only their owner can connect to, and on loopback addresses,
//! which every user of the machine can reach. Resizing under a connected client, extended headers (lengths of 64 bits),
//! other metadata contexts, the oldest handshakes. It checks nothing of what an [`Export`] gives back but lengths.

#![forbid(unsafe_code)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod converse;
mod counters;
mod export;
mod handshake;
mod limits;
mod memory;
mod server;
mod session;
mod transmission;
mod violation;
mod wire;

pub use converse::{ConverseError, converse};
pub use counters::{Counts, ServerCounts};
pub use export::{Export, Exports, Extent, Failure, Zeroing};
pub use limits::{Limits, MOST_PAYLOAD_BYTES};
pub use memory::Memory;
pub use server::{BindError, Handle, Listen, ServeError, Server};
pub use violation::Violation;
