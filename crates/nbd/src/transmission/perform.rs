//! Carrying out a request that was judged to be valid, and answering it.

use super::buffer::Buffer;
use super::read::Failed;
use super::request::{Kind, Request};
use super::{block_status, read, reply};
use crate::export::Failure;
use crate::session::Session;
use crate::wire::Errno;
use std::io;

/// What became of a request, for the figures. It is answered in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Failed,
}

impl Request {
    /// Bytes of memory that the request takes while it is carried out.
    pub(crate) fn buffer_bytes(&self, session: &Session) -> usize {
        let length = self.length as usize;
        match self.kind {
            Kind::Write { .. } => length,
            Kind::Read {
                in_one_chunk: false,
            } if session.structured => length.min(read::PIECE_BYTES),
            Kind::Read { .. } => length,
            _ => 0,
        }
    }
}

/// Carries the request out and sends its replies, each with one call of `send`. The payload is that of a write. What
/// came of it is noted before the last of them, so that a client that has its answer is counted.
///
/// # Errors
/// Those of `send`: the client cannot be answered any more.
pub(crate) fn perform(
    request: &Request,
    payload: &[u8],
    session: &Session,
    buffer: &mut Buffer,
    send: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    note: impl FnOnce(Outcome),
) -> io::Result<()> {
    buffer.clear();
    let result = match request.kind {
        // Sends as it goes, but for the end.
        Kind::Read {
            in_one_chunk: false,
        } if session.structured => read::chunks(request, session, buffer, send)?,
        _ => at_once(request, payload, session, buffer).map_err(|failure| {
            buffer.clear();
            Failed { failure, at: None }
        }),
    };
    if let Err(Failed { failure, at }) = result {
        reply::error(buffer, request.cookie, session, Errno::from(failure), at);
    }
    note(if result.is_ok() {
        Outcome::Done
    } else {
        Outcome::Failed
    });
    read::send_all(buffer, send)
}

/// Requests whose answer is put together before anything is sent.
fn at_once(
    request: &Request,
    payload: &[u8],
    session: &Session,
    buffer: &mut Buffer,
) -> Result<(), Failure> {
    match request.kind {
        Kind::Read { .. } if session.structured => read::one_chunk(request, session, buffer),
        Kind::Read { .. } => read::whole(request, session, buffer),
        Kind::BlockStatus { one_extent } => {
            block_status::answer(request, session, one_extent, buffer)
        }
        _ => change(request, payload, session)
            .inspect(|()| reply::simple(buffer, request.cookie, None)),
    }
}

/// Requests that are answered by success or failure alone.
fn change(request: &Request, payload: &[u8], session: &Session) -> Result<(), Failure> {
    let Request { offset, length, .. } = *request;
    let (export, length) = (&session.export, u64::from(length));
    let flush_if = |persist| if persist { export.flush() } else { Ok(()) };
    match request.kind {
        Kind::Write { persist } => export
            .write(offset, payload)
            .and_then(|()| flush_if(persist)),
        Kind::Trim { persist } => export.trim(offset, length).and_then(|()| flush_if(persist)),
        Kind::WriteZeroes { zeroing, persist } => export
            .write_zeroes(offset, length, zeroing)
            .and_then(|()| flush_if(persist)),
        Kind::Flush => export.flush(),
        // A hint, which an export in memory has no use for.
        Kind::Cache => Ok(()),
        Kind::Read { .. } | Kind::BlockStatus { .. } => Err(Failure::Invalid),
    }
}

/// Answers a request that was refused.
///
/// # Errors
/// Those of `send`.
pub(crate) fn refuse(
    cookie: u64,
    error: Errno,
    session: &Session,
    buffer: &mut Buffer,
    send: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    buffer.clear();
    reply::error(buffer, cookie, session, error, None);
    read::send_all(buffer, send)
}
