//! Conversations of a client with the NBD server, checked by the tests' own reading of the protocol.

#[path = "../../crates/nbd/tests/common/messages.rs"]
#[allow(
    dead_code,
    missing_docs,
    reason = "the tests' messages, of which we need some"
)]
pub mod messages;
#[path = "../../crates/nbd/tests/common/model.rs"]
#[allow(missing_docs, reason = "the tests' model")]
mod model;

use messages::{GO, SET_META_CONTEXT, STRUCTURED_REPLY, export_request, meta_request, option};

/// Bytes of a request before its payload.
const HEADER_BYTES: usize = 28;
/// The longest write that is made of input.
const MOST_WRITTEN: usize = 2048;

/// A handshake, and whatever comes of it: the input is all that the client sends.
pub fn conversation(data: &[u8]) {
    model::check_conversation(data);
}

/// Requests after a handshake that the first byte chooses. Where it says so, each header is made to begin as one does,
/// and to name a command and a payload that there are.
pub fn requests(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    let mut input = handshake(choice & 1 != 0);
    if choice & 2 == 0 {
        input.extend_from_slice(data);
    } else {
        input.extend(mended(data));
    }
    model::check_conversation(&input);
}

/// What a client sends that wants the default export.
pub fn handshake(structured: bool) -> Vec<u8> {
    let mut sent = 3_u32.to_be_bytes().to_vec();
    if structured {
        sent.extend(option(STRUCTURED_REPLY, &[]));
        sent.extend(option(
            SET_META_CONTEXT,
            &meta_request("", &["base:allocation"]),
        ));
    }
    sent.extend(option(GO, &export_request("", &[])));
    sent
}

fn mended(data: &[u8]) -> Vec<u8> {
    let (mut sent, mut rest) = (Vec::new(), data);
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let mut header = *header;
        header[..4].copy_from_slice(&0x2560_9513_u32.to_be_bytes());
        // Flags and commands have one byte each, and some that do not exist.
        (header[4], header[6]) = (0, 0);
        header[7] %= 9;
        rest = after;
        if header[7] == 1 {
            let length = usize::from(u16::from_be_bytes([header[26], header[27]]));
            let length = length.min(MOST_WRITTEN).min(rest.len());
            header[24..].copy_from_slice(&(length as u32).to_be_bytes());
            sent.extend(header);
            sent.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
        } else {
            sent.extend(header);
        }
    }
    sent.extend_from_slice(rest);
    sent
}
