//! How replies look.
//!
//! Without structured replies everything is answered by a simple one. With them, a read and a block status are answered
//! in chunks, every error by a chunk that has a text, and any other success by a simple reply, which is shorter.

use super::buffer::Buffer;
use crate::export::Failure;
use crate::session::Session;
use crate::wire::{CHUNK_HEADER_BYTES, Errno, SIMPLE_REPLY_BYTES, chunk, magic};

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io => Errno::Io,
            Failure::NoSpace => Errno::NoSpace,
            Failure::Invalid => Errno::Invalid,
            Failure::ReadOnly => Errno::NotPermitted,
            Failure::NoMemory => Errno::NoMemory,
            Failure::Shutdown => Errno::Shutdown,
        }
    }
}

impl Errno {
    /// For a person to read.
    fn text(self) -> &'static str {
        match self {
            Errno::NotPermitted => "the export is read-only",
            Errno::Io => "the export could not read or write",
            Errno::NoMemory => "the server has no memory left",
            Errno::Invalid => "no such command, flags, or range",
            Errno::NoSpace => "beyond the end of the export, or no space is left",
            Errno::Overflow => "more bytes than the server reads at once",
            Errno::NotSupported => "not faster than writing zeros",
            Errno::Shutdown => "the server is shutting down",
        }
    }
}

/// A simple reply, before its data.
pub(super) fn simple(buffer: &mut Buffer, cookie: u64, error: Option<Errno>) {
    let header = buffer.extend(SIMPLE_REPLY_BYTES);
    header[..4].copy_from_slice(&magic::SIMPLE_REPLY.to_be_bytes());
    header[4..8].copy_from_slice(&error.map_or(0, |error| error as u32).to_be_bytes());
    header[8..].copy_from_slice(&cookie.to_be_bytes());
}

/// Where in its reply a chunk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Another one follows.
    Followed,
    /// The reply ends with it.
    Last,
}

impl Chunk {
    /// Of a chunk that ends at `at`, in a reply that ends at `end`.
    pub(super) fn up_to(at: u64, end: u64) -> Self {
        if at == end {
            Self::Last
        } else {
            Self::Followed
        }
    }
}

/// Header of a chunk.
pub(super) fn chunk_header(
    cookie: u64,
    kind: u16,
    place: Chunk,
    payload_bytes: usize,
) -> [u8; CHUNK_HEADER_BYTES] {
    let mut header = [0; CHUNK_HEADER_BYTES];
    let flags = match place {
        Chunk::Followed => 0,
        Chunk::Last => chunk::DONE,
    };
    let length = u32::try_from(payload_bytes).expect("chunks are limited");
    header[..4].copy_from_slice(&magic::STRUCTURED_REPLY.to_be_bytes());
    header[4..6].copy_from_slice(&flags.to_be_bytes());
    header[6..8].copy_from_slice(&kind.to_be_bytes());
    header[8..16].copy_from_slice(&cookie.to_be_bytes());
    header[16..].copy_from_slice(&length.to_be_bytes());
    header
}

/// The last chunk of a reply to a request that failed, with the offset at which it did, if that is known.
fn error_chunk(buffer: &mut Buffer, cookie: u64, error: Errno, offset: Option<u64>) {
    let text = error.text().as_bytes();
    let text_length = u16::try_from(text.len()).expect("texts are short");
    let (kind, offset_bytes) = match offset {
        Some(_) => (chunk::ERROR_OFFSET, 8),
        None => (chunk::ERROR, 0),
    };
    buffer.append(&chunk_header(
        cookie,
        kind,
        Chunk::Last,
        6 + text.len() + offset_bytes,
    ));
    buffer.append(&(error as u32).to_be_bytes());
    buffer.append(&text_length.to_be_bytes());
    buffer.append(text);
    if let Some(offset) = offset {
        buffer.append(&offset.to_be_bytes());
    }
}

/// An error, in the form that the session has for it; a simple one has no place for the offset.
pub(super) fn error(
    buffer: &mut Buffer,
    cookie: u64,
    session: &Session,
    error: Errno,
    offset: Option<u64>,
) {
    if session.structured {
        error_chunk(buffer, cookie, error, offset);
    } else {
        simple(buffer, cookie, Some(error));
    }
}
