//! The transmission phase: requests that are judged, carried out and answered. Bytes in, bytes out; no socket.
//!
//! | | |
//! |---|---|
//! | `request.rs` | 28 bytes become a request that is within the export, or an error, or the end |
//! | `receive.rs` | reading header and payload from a stream |
//! | `perform.rs` | carrying out, and answering with success or an error |
//! | `read.rs` | answering a read: whole, or in chunks with holes left out |
//! | `block_status.rs` | answering where holes are |
//! | `reply.rs` | how replies look |
//! | `buffer.rs` | memory that replies and payloads are put together in |

mod block_status;
mod buffer;
mod perform;
mod read;
mod receive;
mod reply;
mod request;

pub(crate) use buffer::Buffer;
pub(crate) use perform::{Outcome, perform, refuse};
pub(crate) use receive::{End, receive_header, receive_payload};
pub(crate) use request::{Kind, Request, Verdict};
