//! What a conversation must look like: a second reading of the protocol, which shares nothing with the server's.
//!
//! [`check`] walks through what a client sent and what it got, side by side. Each option and each request must have its
//! answer and no more, reads must give what was written, and where the client breaks the protocol nothing may follow.

use coldpress_nbd::{Export, Exports, Extent, Failure, Limits, Zeroing};
use std::sync::Arc;

/// Bytes of the export: some pages, and a part of one.
pub const SIZE: usize = 20 * 1024 + 512;
/// Its name; the default is the same.
pub const NAME: &str = "disk";

/// An export of plain bytes that asserts what the server promises of its calls.
pub struct Strict(std::sync::Mutex<Vec<u8>>);

impl Strict {
    fn range(&self, offset: u64, length: u64) -> std::ops::Range<usize> {
        assert!(length > 0, "a call for nothing");
        let end = offset
            .checked_add(length)
            .expect("a range beyond all numbers");
        assert!(end <= SIZE as u64, "a call for {offset}+{length}");
        offset as usize..end as usize
    }
}

impl Export for Strict {
    fn size_bytes(&self) -> u64 {
        SIZE as u64
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        let range = self.range(offset, buffer.len() as u64);
        buffer.copy_from_slice(&self.0.lock().unwrap()[range]);
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let range = self.range(offset, data.len() as u64);
        self.0.lock().unwrap()[range].copy_from_slice(data);
        Ok(())
    }
    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.write_zeroes(offset, length, Zeroing::MayPunch)
    }
    fn write_zeroes(&self, offset: u64, length: u64, _: Zeroing) -> Result<(), Failure> {
        let range = self.range(offset, length);
        self.0.lock().unwrap()[range].fill(0);
        Ok(())
    }
    fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure> {
        let range = self.range(offset, length);
        let bytes = self.0.lock().unwrap();
        let first = bytes[range.start] == 0;
        let alike = bytes[range]
            .iter()
            .take_while(|byte| (**byte == 0) == first);
        let state = if first { Extent::Hole } else { Extent::Data };
        Ok((alike.count() as u64, state))
    }
}

/// The one export.
struct Disk(Arc<Strict>);

impl Exports for Disk {
    fn find(&self, name: &str) -> Option<Arc<dyn Export>> {
        ["", NAME]
            .contains(&name)
            .then(|| Arc::clone(&self.0) as Arc<dyn Export>)
    }
    fn names(&self) -> Vec<(String, String)> {
        vec![(NAME.into(), "for tests".into())]
    }
}

/// Has the server converse with a client that sends this, and checks what it says. Gives how many requests it answered.
pub fn check_conversation(input: &[u8]) -> usize {
    let disk = Disk(Arc::new(Strict(std::sync::Mutex::new(vec![0; SIZE]))));
    let mut output = Vec::new();
    let ended = coldpress_nbd::converse(&mut &*input, &mut output, &disk, &Limits::default());
    if let Err(coldpress_nbd::ConverseError::Stream(error)) = ended {
        panic!("no stream here can fail: {error}");
    }
    check(input, &output)
}

/// Bytes that are taken from the front.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes.
    fn number(&mut self, length: usize) -> Option<u64> {
        let bytes = self.take(length)?;
        Some(
            bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        )
    }

    /// A number that must be there.
    fn must(&mut self, length: usize) -> u64 {
        self.number(length)
            .expect("the server's message is cut off")
    }
}

/// What was agreed on.
#[derive(Default)]
struct Agreed {
    structured: bool,
    context_of: Option<Vec<u8>>,
    name: Vec<u8>,
}

fn check(input: &[u8], output: &[u8]) -> usize {
    let (mut input, mut output) = (Bytes(input), Bytes(output));
    assert_eq!(output.take(18), Some(&b"NBDMAGICIHAVEOPT\0\x03"[..]));
    let mut answered = 0;
    if let Some(agreed) = check_handshake(&mut input, &mut output) {
        answered = check_requests(&mut input, &mut output, &agreed);
    }
    assert!(
        output.0.is_empty(),
        "{} bytes more than there is to say",
        output.0.len()
    );
    answered
}

/// The handshake; what was agreed on, if it led to that.
fn check_handshake(input: &mut Bytes<'_>, output: &mut Bytes<'_>) -> Option<Agreed> {
    let mut agreed = Agreed::default();
    let flags = input.number(4)?;
    if flags > 3 {
        return None;
    }
    for _ in 0..1024 {
        let mut header = Bytes(input.take(16)?);
        let (magic, option, length) = (header.must(8), header.must(4), header.must(4));
        if magic != 0x4948_4156_454f_5054 || length > 32 << 20 {
            return None;
        }
        let data = input.take(length as usize)?;
        if option == 1 {
            if length > 65_536 || ![&b""[..], NAME.as_bytes()].contains(&data) {
                return None;
            }
            assert_eq!(output.must(8), SIZE as u64);
            assert_eq!(
                output.must(2),
                if agreed.structured { 0xded } else { 0xd6d }
            );
            let padding = if flags & 2 == 0 { 124 } else { 0 };
            assert_eq!(output.take(padding), Some(&[0; 124][..padding]));
            agreed.name = data.to_vec();
            return Some(agreed);
        }
        let (last, contexts) = check_option_replies(output, option);
        assert!(
            length <= 65_536 || last == 1 << 31 | 9,
            "too long, and not refused"
        );
        match (option, last) {
            (2, 1) => return None,
            (8, 1) => agreed.structured = true,
            (10, last) => {
                assert!(contexts <= 1 && (last == 1 || contexts == 0));
                // The name is data[4..], as long as data[..4] says: the server took it.
                agreed.context_of = (contexts == 1)
                    .then(|| Bytes(&data[4..]).take(name_length(data)).unwrap().to_vec());
            }
            (7, 1) => {
                agreed.name = data[4..4 + name_length(data)].to_vec();
                return Some(agreed);
            }
            _ => {}
        }
    }
    None
}

fn name_length(data: &[u8]) -> usize {
    Bytes(data).must(4) as usize
}

/// Takes replies to an option up to the final one; gives that one's kind, and how many contexts there were.
fn check_option_replies(output: &mut Bytes<'_>, option: u64) -> (u64, usize) {
    let mut contexts = 0;
    loop {
        assert_eq!(output.must(8), 0x0003_e889_0455_65a9);
        assert_eq!(output.must(4), option);
        let (kind, length) = (output.must(4), output.must(4));
        let payload = output
            .take(length as usize)
            .expect("a reply that is cut off");
        match (kind, option) {
            (1, _) => assert!(payload.is_empty()),
            (2, 3) => assert_eq!(payload, b"\0\0\0\x04diskfor tests"),
            (3, 6 | 7) => assert!(payload.len() >= 2),
            (4, 9 | 10) => {
                contexts += 1;
                assert_eq!(&payload[4..], b"base:allocation");
            }
            (error, _) if error > 1 << 31 => assert!(std::str::from_utf8(payload).is_ok()),
            other => panic!("a reply of a kind that has no place here: {other:?}"),
        }
        if kind == 1 || kind > 1 << 31 {
            return (kind, contexts);
        }
    }
}

/// A request, as the client sent it.
struct Asked<'a> {
    flags: u64,
    command: u64,
    cookie: u64,
    offset: u64,
    length: u64,
    payload: &'a [u8],
}

/// The error that the protocol has for it.
fn expected_error(asked: &Asked<'_>, agreed: &Agreed) -> Option<u64> {
    const INVALID: Option<u64> = Some(22);
    let context = agreed.context_of.as_ref() == Some(&agreed.name);
    let allowed = match asked.command {
        0 if agreed.structured => 1 | 4,
        0 | 1 | 3 | 4 | 5 => 1,
        6 => 1 | 2 | 16,
        7 if context => 1 | 8,
        _ => return INVALID,
    };
    if asked.flags & !allowed != 0 {
        return INVALID;
    }
    if asked.command == 3 {
        return if asked.offset == 0 && asked.length == 0 {
            None
        } else {
            INVALID
        };
    }
    if asked.length == 0 {
        return INVALID;
    }
    if u128::from(asked.offset) + u128::from(asked.length) > SIZE as u128 {
        return if matches!(asked.command, 1 | 6) {
            Some(28)
        } else {
            INVALID
        };
    }
    (asked.command == 6 && asked.flags & 18 == 18).then_some(95)
}

fn check_requests(input: &mut Bytes<'_>, output: &mut Bytes<'_>, agreed: &Agreed) -> usize {
    let mut content = vec![0; SIZE];
    let mut answered = 0;
    loop {
        let Some(header) = input.take(28) else {
            return answered;
        };
        let mut header = Bytes(header);
        let magic = header.must(4);
        let (flags, command, cookie) = (header.must(2), header.must(2), header.must(8));
        let (offset, length) = (header.must(8), header.must(4));
        if magic != 0x2560_9513 || command == 2 || command == 1 && length > 32 << 20 {
            return answered;
        }
        let payload_length = if command == 1 { length as usize } else { 0 };
        let Some(payload) = input.take(payload_length) else {
            return answered;
        };
        let asked = Asked {
            flags,
            command,
            cookie,
            offset,
            length,
            payload,
        };
        check_answer(output, &asked, agreed, &mut content);
        answered += 1;
    }
}

fn check_answer(output: &mut Bytes<'_>, asked: &Asked<'_>, agreed: &Agreed, content: &mut [u8]) {
    let error = expected_error(asked, agreed);
    let in_chunks = agreed.structured && (error.is_some() || matches!(asked.command, 0 | 7));
    if !in_chunks {
        assert_eq!(output.must(4), 0x6744_6698);
        assert_eq!(
            output.must(4),
            error.unwrap_or(0),
            "command {}",
            asked.command
        );
        assert_eq!(output.must(8), asked.cookie);
    }
    let range = asked.offset as usize..asked.offset.wrapping_add(asked.length) as usize;
    if let Some(error) = error {
        if in_chunks {
            check_error_chunk(output, asked, error);
        }
        return;
    }
    match asked.command {
        0 if !in_chunks => assert!(
            output.take(range.len()) == Some(&content[range]),
            "other content"
        ),
        0 => check_content(output, asked, &content[range]),
        1 => content[range].copy_from_slice(asked.payload),
        4 | 6 => content[range].fill(0),
        7 => check_states(output, asked, &content[range]),
        _ => {}
    }
}

/// Header of a chunk: kind, whether it is the last, payload.
fn chunk<'a>(output: &mut Bytes<'a>, cookie: u64) -> (u64, bool, Bytes<'a>) {
    assert_eq!(output.must(4), 0x668e_33ef);
    let (flags, kind) = (output.must(2), output.must(2));
    assert!(flags <= 1);
    assert_eq!(output.must(8), cookie);
    let length = output.must(4) as usize;
    let payload = output.take(length).expect("a chunk that is cut off");
    (kind, flags == 1, Bytes(payload))
}

fn check_error_chunk(output: &mut Bytes<'_>, asked: &Asked<'_>, error: u64) {
    let (kind, done, mut payload) = chunk(output, asked.cookie);
    assert_eq!((kind, done), (0x8001, true));
    assert_eq!(payload.must(4), error, "command {}", asked.command);
    let text = payload.must(2) as usize;
    assert_eq!(payload.0.len(), text);
}

fn check_content(output: &mut Bytes<'_>, asked: &Asked<'_>, content: &[u8]) {
    let (mut at, mut chunks) = (0, 0);
    loop {
        let (kind, done, mut payload) = chunk(output, asked.cookie);
        chunks += 1;
        assert_eq!(
            payload.must(8),
            asked.offset + at as u64,
            "not what comes next"
        );
        match kind {
            1 => {
                let data = payload.0;
                assert!(
                    !data.is_empty() && data == &content[at..at + data.len()],
                    "other content"
                );
                at += data.len();
            }
            2 => {
                let bytes = payload.must(4) as usize;
                assert!(bytes > 0 && payload.0.is_empty());
                assert!(
                    content[at..at + bytes].iter().all(|byte| *byte == 0),
                    "no hole"
                );
                at += bytes;
            }
            other => panic!("a chunk of kind {other}"),
        }
        if done {
            break;
        }
    }
    assert_eq!(at, content.len());
    assert!(chunks == 1 || asked.flags & 4 == 0, "fragmented");
}

fn check_states(output: &mut Bytes<'_>, asked: &Asked<'_>, content: &[u8]) {
    let (kind, done, mut payload) = chunk(output, asked.cookie);
    assert_eq!((kind, done, payload.must(4)), (5, true, 1));
    let (mut at, mut extents, mut before) = (0, 0, None);
    while !payload.0.is_empty() {
        let (bytes, state) = (payload.must(4) as usize, payload.must(4));
        assert!(bytes > 0 && at + bytes <= content.len());
        assert_ne!(before, Some(state), "neighbours of one state");
        let zero = content[at..at + bytes].iter().all(|byte| *byte == 0);
        let full = content[at..at + bytes].iter().all(|byte| *byte != 0);
        assert!(if state == 3 { zero } else { state == 0 && full });
        before = Some(state);
        at += bytes;
        extents += 1;
    }
    assert!(extents > 0);
    assert!(if asked.flags & 8 != 0 {
        extents == 1
    } else {
        at == content.len() || extents >= 16_384
    });
}
