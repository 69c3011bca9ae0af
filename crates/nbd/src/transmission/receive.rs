//! Reading requests from a stream: the header, then the payload if it has one.
//!
//! A stream may be one whose reads time out. Between requests that means nothing, within one it ends the connection.
//! The memory for a payload grows with what has arrived of it.

use super::buffer::Buffer;
use super::request::{Verdict, judge};
use crate::session::Session;
use crate::violation::Violation;
use crate::wire::REQUEST_HEADER_BYTES;
use std::io::{self, ErrorKind, Read};

/// Bytes of a payload that memory is made for before the first has arrived.
const FIRST_PIECE_BYTES: usize = 64 << 10;
/// Bytes that are dropped at a time.
const DROPPED_BYTES: usize = 16 << 10;

/// Why no request can be read any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    /// The client closed its end, between requests or within one; or we stop.
    #[error("closed")]
    Closed,
    /// It stopped within a request, and its time is over.
    #[error("stalled")]
    Stalled,
    #[error(transparent)]
    Violated(#[from] Violation),
    #[error(transparent)]
    Stream(io::Error),
}

fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads some bytes.
fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, End> {
    loop {
        return match input.read(buffer) {
            Ok(0) => Err(End::Closed),
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if timed_out(&error) => Err(End::Stalled),
            Err(error) => Err(End::Stream(error)),
        };
    }
}

/// Waits for the next request, for as long as `go_on` says, and judges it.
pub(crate) fn receive_header(
    input: &mut impl Read,
    session: &Session,
    go_on: impl Fn() -> bool,
) -> Result<Verdict, End> {
    let mut header = [0; REQUEST_HEADER_BYTES];
    let mut filled = 0;
    while filled < header.len() {
        if filled == 0 && !go_on() {
            return Err(End::Closed);
        }
        match read_some(input, &mut header[filled..]) {
            Ok(bytes) => filled += bytes,
            Err(End::Stalled) if filled == 0 => {}
            Err(end) => return Err(end),
        }
    }
    Ok(judge(&header, session)?)
}

/// Reads a payload of so many bytes into the buffer; without one, drops it.
pub(crate) fn receive_payload(
    input: &mut impl Read,
    payload_bytes: usize,
    buffer: Option<&mut Buffer>,
) -> Result<(), End> {
    let mut left = payload_bytes;
    let Some(buffer) = buffer else {
        let mut dropped = vec![0; left.min(DROPPED_BYTES)];
        while left > 0 {
            let piece = left.min(dropped.len());
            left -= read_some(input, &mut dropped[..piece])?;
        }
        return Ok(());
    };
    while left > 0 {
        let piece = left.min(buffer.len().max(FIRST_PIECE_BYTES));
        let mut space = buffer.extend(piece);
        while !space.is_empty() {
            let bytes = read_some(input, space)?;
            space = &mut space[bytes..];
        }
        left -= piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_what_arrives_and_not_with_what_is_announced() {
        for arrived in [0, 1, FIRST_PIECE_BYTES, 300_000, 1_000_000] {
            let sent = vec![1; arrived];
            let mut buffer = Buffer::default();
            let end = receive_payload(&mut &sent[..], 32 << 20, Some(&mut buffer));
            assert!(matches!(end, Err(End::Closed)));
            let most = FIRST_PIECE_BYTES.max(2 * arrived + FIRST_PIECE_BYTES);
            assert!(buffer.len() <= most, "{} bytes for {arrived}", buffer.len());
        }
        let sent = vec![7; 1_000_001];
        let mut buffer = Buffer::default();
        receive_payload(&mut &sent[..], sent.len(), Some(&mut buffer)).unwrap();
        assert!(buffer.filled() == sent);
    }
}
