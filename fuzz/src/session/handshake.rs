//! What the server must answer to a handshake, option by option.

use super::export::Nature;
use super::taking::Bytes;
use super::{DESCRIPTION, End, MOST_PAYLOAD, NAMES, OPTION_BYTES};
use coldpress_nbd::Violation;

const ACK: u64 = 1;
const SERVER: u64 = 2;
const INFO: u64 = 3;
const CONTEXT: u64 = 4;
const UNSUPPORTED: u64 = (1 << 31) + 1;
const INVALID: u64 = (1 << 31) + 3;
const UNKNOWN: u64 = (1 << 31) + 6;
const TOO_BIG: u64 = (1 << 31) + 9;

/// What was agreed on.
#[derive(Default)]
pub(super) struct Agreed {
    pub(super) structured: bool,
    /// The name of the export that the client may ask for states of.
    context_of: Option<Vec<u8>>,
    name: Vec<u8>,
}

impl Agreed {
    /// Whether states of ranges may be asked for.
    pub(super) fn states(&self) -> bool {
        self.context_of.as_ref() == Some(&self.name)
    }

    fn flags(&self, nature: Nature) -> u16 {
        let chunks = if self.structured { 0x80 } else { 0 };
        let changes = if nature.read_only { 0x2 } else { 0x860 };
        0x50d | chunks | changes
    }
}

/// Replies to one option.
struct Replies<'a, 'b> {
    option: u64,
    output: &'a mut Bytes<'b>,
}

impl<'b> Replies<'_, 'b> {
    fn header(&mut self, kind: u64) -> &'b [u8] {
        assert_eq!(self.output.must(8), 0x0003_e889_0455_65a9);
        let (option, found) = (self.output.must(4), self.output.must(4));
        assert_eq!((option, found), (self.option, kind), "another reply");
        self.output.counted().expect("a reply that is cut off")
    }

    fn reply(&mut self, kind: u64, parts: &[&[u8]]) {
        let payload = self.header(kind);
        assert_eq!(payload, parts.concat(), "payload of a reply {kind}");
    }

    /// An error, which has a text.
    fn error(&mut self, kind: u64) {
        let text = self.header(kind);
        assert!(std::str::from_utf8(text).is_ok());
    }
}

fn known(name: &[u8]) -> bool {
    NAMES.iter().any(|known| known.as_bytes() == name)
}

fn valid(name: &[u8]) -> bool {
    !name.contains(&0) && std::str::from_utf8(name).is_ok()
}

/// Checks a handshake; what was agreed on, or how it ended.
pub(super) fn check(
    input: &mut Bytes<'_>,
    output: &mut Bytes<'_>,
    nature: Nature,
) -> Result<Agreed, End> {
    output.expect(b"NBDMAGICIHAVEOPT\0\x03", "the greeting");
    let mut agreed = Agreed::default();
    let flags = input.number(4).ok_or(End::Left)?;
    if flags > 3 {
        return Err(End::Violated(Violation::ClientFlags(flags as u32)));
    }
    loop {
        let mut header = Bytes(input.take(16).ok_or(End::Left)?);
        let (magic, option, length) = (header.must(8), header.must(4), header.must(4));
        if magic != 0x4948_4156_454f_5054 {
            return Err(End::Violated(Violation::OptionMagic(magic)));
        }
        if length > MOST_PAYLOAD {
            return Err(End::Violated(Violation::OptionLength(length as u32)));
        }
        let data = input.take(length as usize).ok_or(End::Left)?;
        let fits = data.len() <= OPTION_BYTES;
        if option == 1 {
            if !(fits && known(data)) {
                return Err(End::Violated(Violation::ExportName));
            }
            output.expect(&nature.size_bytes.to_be_bytes(), "the size");
            output.expect(&agreed.flags(nature).to_be_bytes(), "the flags");
            let padding = if flags & 2 == 0 { 124 } else { 0 };
            output.expect(&[0; 124][..padding], "the padding");
            agreed.name = data.to_vec();
            return Ok(agreed);
        }
        if option == 10 {
            agreed.context_of = None;
        }
        let mut replies = Replies { option, output };
        match option {
            _ if !fits => replies.error(TOO_BIG),
            2 => {
                replies.reply(ACK, &[]);
                return Err(End::Left);
            }
            3 | 5 | 8 if length > 0 => replies.error(INVALID),
            3 => {
                let name = NAMES[1].as_bytes();
                let length = (name.len() as u32).to_be_bytes();
                replies.reply(SERVER, &[&length, name, DESCRIPTION.as_bytes()]);
                replies.reply(ACK, &[]);
            }
            8 => {
                replies.reply(ACK, &[]);
                agreed.structured = true;
            }
            6 | 7 => {
                let name = check_export(&mut replies, data, &agreed, nature);
                if let (7, Some(name)) = (option, name) {
                    agreed.name = name;
                    return Ok(agreed);
                }
            }
            9 | 10 => check_contexts(&mut replies, data, &mut agreed),
            _ => replies.error(UNSUPPORTED),
        }
    }
}

/// INFO and GO; the name, if the export was found.
fn check_export(
    replies: &mut Replies<'_, '_>,
    data: &[u8],
    agreed: &Agreed,
    nature: Nature,
) -> Option<Vec<u8>> {
    let parse = || {
        let mut data = Bytes(data);
        let (name, count) = (data.counted()?, data.number(2)?);
        let wanted = data.take(2 * count as usize)?;
        (data.0.is_empty() && valid(name)).then_some((name, wanted))
    };
    let Some((name, wanted)) = parse() else {
        replies.error(INVALID);
        return None;
    };
    if !known(name) {
        replies.error(UNKNOWN);
        return None;
    }
    let size = nature.size_bytes.to_be_bytes();
    replies.reply(INFO, &[&[0, 0], &size, &agreed.flags(nature).to_be_bytes()]);
    let sizes = [1, 4096, MOST_PAYLOAD as u32].map(u32::to_be_bytes);
    let texts = [name, DESCRIPTION.as_bytes(), sizes.as_flattened()];
    for (number, text) in (1_u16..).zip(texts) {
        let number = number.to_be_bytes();
        if wanted.chunks(2).any(|wanted| wanted == number) {
            replies.reply(INFO, &[&number, text]);
        }
    }
    replies.reply(ACK, &[]);
    Some(name.to_vec())
}

/// LIST_META_CONTEXT and SET_META_CONTEXT.
fn check_contexts(replies: &mut Replies<'_, '_>, data: &[u8], agreed: &mut Agreed) {
    let sets = replies.option == 10;
    let parse = || {
        let mut data = Bytes(data);
        let (name, count) = (data.counted()?, data.number(4)?);
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(data.counted()?);
        }
        (data.0.is_empty() && valid(name)).then_some((name, queries))
    };
    if sets && !agreed.structured {
        return replies.error(INVALID);
    }
    let Some((name, queries)) = parse() else {
        return replies.error(INVALID);
    };
    if !known(name) {
        return replies.error(UNKNOWN);
    }
    let asked = |text: &[u8]| queries.contains(&text);
    let one = asked(b"base:allocation");
    if sets && one {
        replies.reply(CONTEXT, &[&[0, 0, 0, 1], b"base:allocation"]);
        agreed.context_of = Some(name.to_vec());
    } else if !sets && (one || queries.is_empty() || asked(b"base:")) {
        replies.reply(CONTEXT, &[&[0; 4], b"base:allocation"]);
    }
    replies.reply(ACK, &[]);
}
