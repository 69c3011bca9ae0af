//! Answering a read.
//!
//! A simple reply is the whole content: it is put together before the first byte is sent, since an error could not be
//! told afterwards. In chunks, what the export knows to be zero is named and not sent, and content is sent in pieces of
//! [`PIECE_BYTES`], so that a large read takes no more memory than that.
//!
//! A hole shorter than [`LEAST_HOLE_BYTES`] is sent as content, so that an export that answers in crumbs does not make
//! the reply longer than what was asked for.

use super::buffer::Buffer;
use super::reply::{Chunk, chunk_header, simple};
use super::request::Request;
use crate::export::{Extent, Failure};
use crate::session::Session;
use crate::wire::chunk;
use std::io;

/// Bytes of content that are put together before they are sent.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// The shortest hole that has a chunk of its own.
const LEAST_HOLE_BYTES: u64 = 512;
/// Where less than this is left of a piece, it is sent.
const LEAST_ROOM_BYTES: usize = 64 << 10;
/// Content is cut at multiples of this.
const PAGE_BYTES: u64 = 4096;

/// A failure of the export.
pub(super) struct Failed {
    pub(super) failure: Failure,
    /// Where in the export, if that is known.
    pub(super) at: Option<u64>,
}

/// Sends what lies in the buffer and empties it.
pub(super) fn send_all(
    buffer: &mut Buffer,
    send: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let sent = send(buffer.filled());
    buffer.clear();
    sent
}

/// Answers without chunks; says what failed.
pub(super) fn whole(
    request: &Request,
    session: &Session,
    buffer: &mut Buffer,
) -> Result<(), Failure> {
    simple(buffer, request.cookie, None);
    let data = buffer.extend(request.length as usize);
    session.export.read(request.offset, data)
}

/// Answers by a single chunk of content, or of a hole.
pub(super) fn one_chunk(
    request: &Request,
    session: &Session,
    buffer: &mut Buffer,
) -> Result<(), Failure> {
    let length = u64::from(request.length);
    match session.export.extent(request.offset, length) {
        Ok((bytes, Extent::Zero | Extent::Hole)) if bytes == length => {
            hole(buffer, request.cookie, request.offset, length, Chunk::Last);
            Ok(())
        }
        _ => content(
            buffer,
            request.cookie,
            session,
            request.offset,
            length,
            Chunk::Last,
        ),
    }
}

fn hole(buffer: &mut Buffer, cookie: u64, offset: u64, length: u64, place: Chunk) {
    let length = u32::try_from(length).expect("within a request");
    buffer.append(&chunk_header(cookie, chunk::OFFSET_HOLE, place, 12));
    buffer.append(&offset.to_be_bytes());
    buffer.append(&length.to_be_bytes());
}

fn content(
    buffer: &mut Buffer,
    cookie: u64,
    session: &Session,
    offset: u64,
    length: u64,
    place: Chunk,
) -> Result<(), Failure> {
    let before = buffer.len();
    let length = usize::try_from(length).expect("within a request");
    buffer.append(&chunk_header(cookie, chunk::OFFSET_DATA, place, 8 + length));
    buffer.append(&offset.to_be_bytes());
    let data = buffer.extend(length);
    let read = session.export.read(offset, data);
    if read.is_err() {
        buffer.truncate(before);
    }
    read
}

/// The state of what begins at `offset`: how many bytes have it, `most` at the utmost, and whether they are zero.
/// What the export cannot say is taken for content, and found out by reading.
fn run(session: &Session, offset: u64, most: u64) -> (u64, bool) {
    match session.export.extent(offset, most) {
        Ok((bytes, Extent::Zero | Extent::Hole)) if bytes >= LEAST_HOLE_BYTES.min(most) => {
            (bytes, true)
        }
        Ok((bytes, _)) => (bytes, false),
        Err(_) => (most, false),
    }
}

/// How much content there is before the next hole, of which `known` bytes are known already, `most` at the utmost.
fn content_run(session: &Session, offset: u64, known: u64, most: u64) -> u64 {
    let mut bytes = known.min(most);
    while bytes < most {
        match run(session, offset + bytes, most - bytes) {
            (_, true) => break,
            (more, false) => bytes += more,
        }
    }
    bytes
}

/// The most content from `offset` that goes into the buffer, ending where pages end.
fn fitting(buffer: &Buffer, offset: u64, end: u64) -> u64 {
    let room = PIECE_BYTES
        .saturating_sub(buffer.len())
        .max(LEAST_ROOM_BYTES) as u64;
    match offset.checked_add(room) {
        Some(cut) if cut < end => cut - cut % PAGE_BYTES - offset,
        _ => end - offset,
    }
}

/// Answers in chunks, the last of which is left in the buffer. Where the export fails, what came before is sent or left
/// there, and the caller appends the error; an error of the stream is the outer one.
pub(super) fn chunks(
    request: &Request,
    session: &Session,
    buffer: &mut Buffer,
    send: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Result<(), Failed>> {
    let cookie = request.cookie;
    let end = request.offset + u64::from(request.length);
    let mut at = request.offset;
    while at < end {
        if buffer.len() + LEAST_ROOM_BYTES > PIECE_BYTES {
            send_all(buffer, send)?;
        }
        let (known, zero) = run(session, at, end - at);
        if zero {
            let place = Chunk::up_to(at + known, end);
            hole(buffer, cookie, at, known, place);
            at += known;
        } else {
            let bytes = content_run(session, at, known, fitting(buffer, at, end));
            let place = Chunk::up_to(at + bytes, end);
            if let Err(failure) = content(buffer, cookie, session, at, bytes, place) {
                return Ok(Err(Failed {
                    failure,
                    at: Some(at),
                }));
            }
            at += bytes;
        }
    }
    Ok(Ok(()))
}
