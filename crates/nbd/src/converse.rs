//! A whole conversation over any stream, one request at a time.
//!
//! It is what the server does with a socket, without threads: for a stream that somebody else has opened (standard
//! input of a program that inetd started, a pair of pipes), and for tests that feed it bytes.

use crate::export::Exports;
use crate::handshake::{Handshake, Step, Wants};
use crate::limits::Limits;
use crate::session::Session;
use crate::transmission::{Buffer, End, Verdict, perform, receive_header, receive_payload, refuse};
use crate::violation::Violation;
use std::io::{self, Read, Write};

/// Why a conversation ended otherwise than by the client's leave.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConverseError {
    /// The client broke the protocol.
    #[error("the client broke the protocol: {0}")]
    Violation(#[from] Violation),
    /// The stream failed.
    #[error("the stream failed: {0}")]
    Stream(#[source] io::Error),
}

/// How a handshake ended.
pub(crate) enum Negotiated {
    /// An export, and the answer that says so, which was not sent yet.
    Session(Session, Vec<u8>),
    /// The client left, or was done.
    Left,
}

/// Reads what the machine wants, until it has a session. `read` fills its buffer, `send` sends all.
pub(crate) fn negotiate(
    handshake: &mut Handshake<'_>,
    mut output: Vec<u8>,
    mut read: impl FnMut(&mut [u8]) -> io::Result<()>,
    mut send: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<Negotiated, ConverseError> {
    let mut input = Vec::new();
    loop {
        send(&output).map_err(ConverseError::Stream)?;
        output.clear();
        let (wanted, mut dropped) = match handshake.wants() {
            Wants::Bytes(bytes) => (bytes, 0),
            Wants::Discarded(bytes) => (0, bytes),
        };
        let mut piece = [0; 4096];
        while dropped > 0 {
            let bytes = dropped.min(4096);
            match read(&mut piece[..bytes as usize]) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Negotiated::Left);
                }
                result => result.map_err(ConverseError::Stream)?,
            }
            dropped -= bytes;
        }
        input.resize(wanted, 0);
        match read(&mut input) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(Negotiated::Left);
            }
            result => result.map_err(ConverseError::Stream)?,
        }
        let step = handshake.take(&input, &mut output);
        match step? {
            Step::More => {}
            Step::Close => {
                send(&output).map_err(ConverseError::Stream)?;
                return Ok(Negotiated::Left);
            }
            Step::Enter(session) => return Ok(Negotiated::Session(session, output)),
        }
    }
}

/// Serves one client over a stream that is open, until it leaves.
///
/// # Errors
/// [`ConverseError`]: the stream fails, or the client breaks the protocol so that nothing can be answered.
pub fn converse(
    input: &mut impl Read,
    output: &mut impl Write,
    exports: &dyn Exports,
    limits: &Limits,
) -> Result<(), ConverseError> {
    let mut greeting = Vec::new();
    let mut handshake = Handshake::begin(exports, limits, &mut greeting);
    let read = |buffer: &mut [u8]| input.read_exact(buffer);
    let mut send = |bytes: &[u8]| output.write_all(bytes).and_then(|()| output.flush());
    let Negotiated::Session(session, answer) =
        negotiate(&mut handshake, greeting, read, &mut send)?
    else {
        return Ok(());
    };
    send(&answer).map_err(ConverseError::Stream)?;
    let (mut payload, mut reply) = (Buffer::default(), Buffer::default());
    loop {
        match answer_one(input, output, &session, &mut payload, &mut reply) {
            Ok(()) => {}
            Err(End::Closed) => return Ok(()),
            Err(End::Stalled) => return Err(ConverseError::Stream(io::ErrorKind::TimedOut.into())),
            Err(End::Violated(violation)) => return Err(violation.into()),
            Err(End::Stream(error)) => return Err(ConverseError::Stream(error)),
        }
    }
}

fn answer_one(
    input: &mut impl Read,
    output: &mut impl Write,
    session: &Session,
    payload: &mut Buffer,
    reply: &mut Buffer,
) -> Result<(), End> {
    let verdict = receive_header(input, session, || true)?;
    let mut send = |bytes: &[u8]| output.write_all(bytes).and_then(|()| output.flush());
    match verdict {
        Verdict::Leave => Err(End::Closed),
        Verdict::Refuse {
            cookie,
            error,
            payload_bytes,
        } => {
            receive_payload(input, payload_bytes as usize, None)?;
            refuse(cookie, error, session, reply, &mut send).map_err(End::Stream)
        }
        Verdict::Perform(request) => {
            payload.clear();
            receive_payload(input, request.payload_bytes(), Some(payload))?;
            perform(
                &request,
                payload.filled(),
                session,
                reply,
                &mut send,
                |_| {},
            )
            .map_err(End::Stream)
        }
    }
}
