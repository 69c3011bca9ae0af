//! Whole sessions with the NBD server, short and many: from the client's flags to its leave, without a socket, a
//! thread, or a wait.
//!
//! The input is a plan of records of a few bytes ([`plan`]): what kind of export there is, what options the client
//! sends, what it asks. So a mutation changes a command, a flag or a range and not a magic number, and the target needs
//! neither comparisons traced nor long inputs. Some records are sent as they are, some cut the stream off.
//!
//! The server's answers are foretold, byte by byte but for texts of errors ([`handshake`], [`requests`]). What the
//! requests do is done to a second export ([`export`]) as well. Both must hold the same in the end, and the
//! conversation must end as the protocol has it.
//!
//! Not here: arbitrary bytes from the first on (`decode_nbd_handshake`, `decode_nbd_requests`), replies of more than
//! one piece (1 MiB), options without end, what threads do to one another.

mod export;
mod handshake;
mod plan;
mod requests;
mod taking;

use coldpress_nbd::{ConverseError, Limits, Violation};
use export::{Blocks, One};
use std::sync::Arc;
use taking::Bytes;

/// Names of the one export: the second is listed.
const NAMES: [&str; 2] = ["", "disk"];
/// Its description.
const DESCRIPTION: &str = "for fuzzing";
/// The longest option that the server takes: less than by default, so that longer ones are cheap.
const OPTION_BYTES: usize = 256;
/// The most payload of a request, and of an option that is skipped.
const MOST_PAYLOAD: u64 = 32 << 20;

/// How a session ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The client left, or sent no more.
    Left,
    Violated(Violation),
}

/// Plans a session, has the server hold it, and checks what it said and did.
pub fn session(data: &[u8]) {
    let Some((nature, plan)) = plan::nature(data) else {
        return;
    };
    let sent = plan::sent(plan, nature);
    let (served, expected) = (Arc::new(Blocks::new(nature)), Blocks::new(nature));
    let limits = Limits {
        option_bytes: OPTION_BYTES,
        ..Limits::default()
    };
    let mut output = Vec::with_capacity(4096);
    let exports = One(Arc::clone(&served));
    let ended = coldpress_nbd::converse(&mut &sent[..], &mut output, &exports, &limits);
    let ended = match ended {
        Ok(()) => End::Left,
        Err(ConverseError::Violation(violation)) => End::Violated(violation),
        Err(other) => panic!("no stream here can fail: {other}"),
    };
    let (mut input, mut output) = (Bytes(&sent), Bytes(&output));
    let foretold = match handshake::check(&mut input, &mut output, nature) {
        Ok(agreed) => requests::check(&mut input, &mut output, &agreed, &expected),
        Err(end) => end,
    };
    assert_eq!(ended, foretold, "it ended otherwise");
    let more = output.0.len();
    assert!(more == 0, "{more} bytes more than there is to say");
    let (served, expected) = (served.content.lock(), expected.content.lock());
    let same = served
        .expect("one thread")
        .same(&expected.expect("one thread"));
    assert!(same, "the export holds something else than was asked for");
}

/// A plan with something of everything, for an export and a handshake of the kinds of these bytes.
pub fn seed(nature: u8, options: &[u8]) -> Vec<u8> {
    plan::seed(nature, options)
}
