//! What the server must answer to requests, and do to the export.

use super::export::{Blocks, Fails};
use super::handshake::Agreed;
use super::taking::Bytes;
use super::{End, MOST_PAYLOAD};
use coldpress_nbd::{Export, Extent, Failure, Violation, Zeroing};

const READ: u64 = 0;
const WRITE: u64 = 1;
const FLUSH: u64 = 3;
const TRIM: u64 = 4;
const CACHE: u64 = 5;
const WRITE_ZEROES: u64 = 6;
const STATES: u64 = 7;

/// Flags of a request.
const PERSIST: u64 = 1;
const NO_HOLE: u64 = 2;
const ONE_CHUNK: u64 = 4;
const ONE_EXTENT: u64 = 8;
const FAST: u64 = 16;

const INVALID: u64 = 22;
const NO_SPACE: u64 = 28;
const IO: u64 = 5;

/// A request, as the client sent it.
struct Asked<'a> {
    flags: u64,
    command: u64,
    cookie: u64,
    offset: u64,
    length: u64,
    payload: &'a [u8],
}

impl Asked<'_> {
    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Where the range ends, which lies within the export.
    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// Checks all requests; how they ended.
pub(super) fn check(
    input: &mut Bytes<'_>,
    output: &mut Bytes<'_>,
    agreed: &Agreed,
    export: &Blocks,
) -> End {
    while let Some(header) = input.take(28) {
        let mut header = Bytes(header);
        let magic = header.must(4);
        if magic != 0x2560_9513 {
            return End::Violated(Violation::RequestMagic(magic as u32));
        }
        let (flags, command, cookie) = (header.must(2), header.must(2), header.must(8));
        let (offset, length) = (header.must(8), header.must(4));
        if command == 2 {
            return End::Left;
        }
        let payload_length = if command == WRITE { length } else { 0 };
        if payload_length > MOST_PAYLOAD {
            return End::Violated(Violation::PayloadLength(length as u32));
        }
        let Some(payload) = input.take(payload_length as usize) else {
            return End::Left;
        };
        let asked = Asked {
            flags,
            command,
            cookie,
            offset,
            length,
            payload,
        };
        check_answer(output, &asked, agreed, export);
    }
    End::Left
}

/// The error by which a request is refused.
fn refusal(asked: &Asked<'_>, agreed: &Agreed, export: &Blocks) -> Option<u64> {
    let allowed = match asked.command {
        READ if agreed.structured => ONE_CHUNK,
        READ | WRITE | FLUSH | TRIM | CACHE => 0,
        WRITE_ZEROES => NO_HOLE | FAST,
        STATES if agreed.states() => ONE_EXTENT,
        _ => return Some(INVALID),
    };
    if asked.flags & !(allowed | PERSIST) != 0 {
        return Some(INVALID);
    }
    let changes = matches!(asked.command, WRITE | TRIM | WRITE_ZEROES);
    if changes && export.nature.read_only {
        return Some(1);
    }
    if asked.command == FLUSH {
        return (asked.offset != 0 || asked.length != 0).then_some(INVALID);
    }
    if asked.length == 0 {
        return Some(INVALID);
    }
    let end = u128::from(asked.offset) + u128::from(asked.length);
    if end > u128::from(export.nature.size_bytes) {
        let needs_space = matches!(asked.command, WRITE | WRITE_ZEROES);
        return Some(if needs_space { NO_SPACE } else { INVALID });
    }
    if asked.command == READ && asked.length > MOST_PAYLOAD {
        return Some(if agreed.structured { 75 } else { INVALID });
    }
    (asked.command == WRITE_ZEROES && asked.has(NO_HOLE) && asked.has(FAST)).then_some(95)
}

/// Does to our export what the request wants, if it is one that is answered by success or failure alone.
fn carry_out(asked: &Asked<'_>, export: &Blocks) -> Option<Result<(), Failure>> {
    let zeroing = if asked.has(NO_HOLE) {
        Zeroing::NoHole
    } else {
        Zeroing::MayPunch
    };
    let done = match asked.command {
        WRITE => export.write(asked.offset, asked.payload),
        FLUSH => return Some(export.flush()),
        TRIM => export.trim(asked.offset, asked.length),
        CACHE => return Some(Ok(())),
        WRITE_ZEROES => export.write_zeroes(asked.offset, asked.length, zeroing),
        _ => return None,
    };
    let persist = || {
        if asked.has(PERSIST) {
            export.flush()
        } else {
            Ok(())
        }
    };
    Some(done.and_then(|()| persist()))
}

fn number(failure: Failure) -> u64 {
    match failure {
        Failure::Io => IO,
        Failure::NoSpace => NO_SPACE,
        Failure::Invalid => INVALID,
        Failure::ReadOnly => 1,
        Failure::NoMemory => 12,
        Failure::Shutdown => 108,
    }
}

fn check_answer(output: &mut Bytes<'_>, asked: &Asked<'_>, agreed: &Agreed, export: &Blocks) {
    if let Some(error) = refusal(asked, agreed, export) {
        return check_error(output, asked, agreed, error);
    }
    match (carry_out(asked, export), asked.command) {
        (Some(Ok(())), _) => check_simple(output, asked, 0),
        (Some(Err(failure)), _) => check_error(output, asked, agreed, number(failure)),
        (None, READ) if !agreed.structured => check_whole(output, asked, agreed, export),
        (None, READ) => check_chunks(output, asked, export),
        (None, _) => check_states(output, asked, agreed, export),
    }
}

fn check_simple(output: &mut Bytes<'_>, asked: &Asked<'_>, error: u64) {
    let (magic, found, cookie) = (output.must(4), output.must(4), output.must(8));
    let expected = (0x6744_6698, error, asked.cookie);
    assert_eq!(
        (magic, found, cookie),
        expected,
        "command {}",
        asked.command
    );
}

fn check_error(output: &mut Bytes<'_>, asked: &Asked<'_>, agreed: &Agreed, error: u64) {
    if !agreed.structured {
        return check_simple(output, asked, error);
    }
    let (kind, done, mut payload) = chunk(output, asked.cookie);
    assert_eq!((kind, done), (0x8001, true), "command {}", asked.command);
    check_error_payload(&mut payload, error);
    assert!(payload.0.is_empty());
}

/// Number and text of an error.
fn check_error_payload(payload: &mut Bytes<'_>, error: u64) {
    assert_eq!(payload.must(4), error, "another error");
    let length = payload.must(2) as usize;
    let text = payload.take(length).expect("a text that is cut off");
    assert!(!text.is_empty() && std::str::from_utf8(text).is_ok());
}

/// Header of a chunk: kind, whether it is the last, payload.
fn chunk<'a>(output: &mut Bytes<'a>, cookie: u64) -> (u64, bool, Bytes<'a>) {
    let (magic, flags, kind) = (output.must(4), output.must(2), output.must(2));
    assert_eq!((magic, output.must(8)), (0x668e_33ef, cookie));
    assert!(flags <= 1);
    let payload = output.counted().expect("a chunk that is cut off");
    (kind, flags == 1, Bytes(payload))
}

/// A read without chunks.
fn check_whole(output: &mut Bytes<'_>, asked: &Asked<'_>, agreed: &Agreed, export: &Blocks) {
    if export.bad(Fails::Reads, asked.offset, asked.length) {
        return check_error(output, asked, agreed, IO);
    }
    check_simple(output, asked, 0);
    let data = output.take(asked.length as usize);
    check_data(asked.offset, data.expect("content that is cut off"), export);
}

fn check_data(at: u64, data: &[u8], export: &Blocks) {
    let content = export.content.lock().expect("one thread");
    assert!(!data.is_empty() && content.is_at(at, data), "other content");
}

/// A read in chunks.
fn check_chunks(output: &mut Bytes<'_>, asked: &Asked<'_>, export: &Blocks) {
    let (mut at, mut done) = (asked.offset, false);
    while !done {
        assert!(at == asked.offset || !asked.has(ONE_CHUNK), "fragmented");
        let (kind, last, mut payload) = chunk(output, asked.cookie);
        done = last;
        if kind >= 0x8000 {
            let failed = export.bad(Fails::Reads, at, asked.end() - at);
            assert!(done && failed, "an error {kind:x} where none was");
            check_error_payload(&mut payload, IO);
            if !asked.has(ONE_CHUNK) {
                assert_eq!((kind, payload.must(8)), (0x8002, at), "another place");
            }
            assert!(payload.0.is_empty());
            return;
        }
        assert_eq!(payload.must(8), at, "not what comes next");
        let length = match kind {
            1 => payload.0.len() as u64,
            _ => payload.must(4),
        };
        assert!(length > 0 && length <= asked.end() - at, "beyond the range");
        match kind {
            1 => {
                assert!(!export.bad(Fails::Reads, at, length), "read by whom?");
                check_data(at, payload.0, export);
            }
            2 => {
                let content = export.content.lock().expect("one thread");
                assert!(
                    payload.0.is_empty() && content.is_hole(at, length),
                    "no hole"
                );
            }
            other => panic!("a chunk of kind {other}"),
        }
        at += length;
    }
    assert_eq!(at, asked.end());
}

/// States of a range: of all of it, up to where the export cannot say any more, or of its first part alone.
fn check_states(output: &mut Bytes<'_>, asked: &Asked<'_>, agreed: &Agreed, export: &Blocks) {
    let unknown = |at| export.bad(Fails::Extents, at, 1);
    if unknown(asked.offset) {
        return check_error(output, asked, agreed, IO);
    }
    let (kind, done, mut payload) = chunk(output, asked.cookie);
    assert_eq!((kind, done, payload.must(4)), (5, true, 1));
    let mut at = asked.offset;
    while at < asked.end() && !unknown(at) {
        let content = export.content.lock().expect("one thread");
        let (mut bytes, state) = content.run(at, asked.end() - at);
        if export.bad(Fails::Extents, at, bytes) {
            bytes = Blocks::before_bad(at);
        }
        let state = match state {
            Extent::Data => 0,
            Extent::Zero => 2,
            Extent::Hole => 3,
        };
        assert_eq!(
            (payload.must(4), payload.must(4)),
            (bytes, state),
            "at {at}"
        );
        at += bytes;
        if asked.has(ONE_EXTENT) {
            break;
        }
    }
    assert!(payload.0.is_empty(), "more states than there are");
}
