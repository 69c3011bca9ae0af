//! From an input to the kind of export and to all that the client sends.
//!
//! | bytes | say |
//! |---|---|
//! | 1 | the export: [`nature`] |
//! | 1 | the client's flags |
//! | 1 each | options, up to one that enters the export: [`option_of`]; a few take what they send from the input |
//! | 7 each | requests: command, flags, offset, length, cookie and content: [`request_of`] |
//! | what is left | the same bytes |

use super::export::{BACKED, Fails, Nature};
use super::taking::Bytes;
use super::{MOST_PAYLOAD, OPTION_BYTES};
use crate::nbd::messages::*;

/// Bytes of a request's record.
const RECORD: usize = 7;
/// The longest read that is cheap.
const CHEAP: u64 = 1 << 14;

/// The export that the first byte stands for; the rest is the plan.
pub(super) fn nature(data: &[u8]) -> Option<(Nature, &[u8])> {
    let (kind, plan) = data.split_first()?;
    let sizes = [BACKED as u64, 4608, 1 << 40, u64::MAX - 511];
    let fails = [Fails::Never, Fails::Reads, Fails::Changes, Fails::Extents];
    let nature = Nature {
        size_bytes: sizes[usize::from(kind & 3)],
        fails: fails[usize::from(kind >> 2 & 3)],
        crumbs: kind & 16 != 0,
        read_only: kind & 0xe0 == 0xe0,
    };
    Some((nature, plan))
}

/// All that the client sends.
pub(super) fn sent(plan: &[u8], nature: Nature) -> Vec<u8> {
    let mut plan = Bytes(plan);
    let mut sent = Vec::with_capacity(4096);
    let Some(flags) = plan.number(1) else {
        return sent;
    };
    // Rarely one that does not exist.
    let unknown = if flags >= 0xf8 { 4 } else { 0 };
    sent.extend((flags as u32 & 3 | unknown).to_be_bytes());
    let mut structured = false;
    while let Some(number) = plan.number(1) {
        structured |= number % 32 == 0;
        if option_of(number % 32, &mut plan, &mut sent) {
            break;
        }
    }
    let mut count = 0;
    while let Some(record) = plan.take(RECORD) {
        count += 1;
        let record = record.try_into().expect("as long as a record");
        if !request_of(record, count, structured, nature, &mut sent) {
            break;
        }
    }
    sent.extend_from_slice(plan.0);
    sent
}

/// Sends the option of this number; true if it enters the export.
fn option_of(number: u64, plan: &mut Bytes<'_>, sent: &mut Vec<u8>) -> bool {
    const ONE: &str = "base:allocation";
    let set = |name, queries: &[&str]| option(SET_META_CONTEXT, &meta_request(name, queries));
    let list = |name, queries: &[&str]| option(LIST_META_CONTEXT, &meta_request(name, queries));
    let go = |name, infos: &[u16]| option(GO, &export_request(name, infos));
    let claim = |number, length| {
        option(number, &[])[..12]
            .iter()
            .copied()
            .chain(u32::to_be_bytes(length))
            .collect()
    };
    let message = match number {
        0 => option(STRUCTURED_REPLY, &[]),
        1 => set("", &[ONE]),
        2 => set("disk", &[ONE]),
        3 => set("nobody", &[ONE]),
        4 => set("disk", &[]),
        5 => set("", &["x:y", ONE]),
        6 => list("disk", &[]),
        7 => list("disk", &["base:"]),
        8 => list("", &["x:y"]),
        9 => list("nobody", &[ONE]),
        10 => option(INFO, &export_request("disk", &[1, 2, 3])),
        11 => option(INFO, &export_request("nobody", &[])),
        12 => option(LIST, &[]),
        13 => option(LIST, &[0]),
        14 => option(STRUCTURED_REPLY, &[0]),
        15 => option(5, &[]),
        16 => option(11, &[]),
        17 => option(SET_META_CONTEXT, &[0; OPTION_BYTES + 1]),
        18 => option(ABORT, &[]),
        19 => option(EXPORT_NAME, &[0; OPTION_BYTES + 1]),
        20 => claim(GO, MOST_PAYLOAD as u32 + 1),
        21 => option(EXPORT_NAME, b"nobody"),
        22 => go("nobody", &[]),
        // Any number, and any data.
        23 => {
            let (number, length) = (plan.number(1).unwrap_or(0), plan.number(1).unwrap_or(0));
            let length = (length as usize).min(plan.0.len());
            option(number as u32 % 14, plan.take(length).unwrap_or_default())
        }
        // The longest that are skipped, and taken.
        24 => claim(GO, MOST_PAYLOAD as u32),
        31 => option(SET_META_CONTEXT, &[0; OPTION_BYTES]),
        // What is no option.
        25 => plan.take(16.min(plan.0.len())).unwrap_or_default().to_vec(),
        26 => option(EXPORT_NAME, b""),
        27 => option(EXPORT_NAME, b"disk"),
        28 => go("disk", &[3, 1]),
        29 => go("disk", &[]),
        _ => go("", &[]),
    };
    sent.extend(message);
    (26..31).contains(&number)
}

/// Sends a request; false if the client ends with it.
fn request_of(
    record: [u8; RECORD],
    count: u64,
    structured: bool,
    nature: Nature,
    sent: &mut Vec<u8>,
) -> bool {
    let [command, flags, offset, offset_low, length, length_low, seed] = record;
    // Four bits are the command; beside those that there are, one that there is not, and the likely ones again.
    let command = [
        READ,
        WRITE,
        DISC,
        FLUSH,
        TRIM,
        CACHE,
        WRITE_ZEROES,
        BLOCK_STATUS,
        8,
        0x100,
    ]
    .get(usize::from(command & 15))
    .copied()
    .unwrap_or([READ, WRITE, TRIM][usize::from(command % 3)]);
    let offset = offset_of(u64::from(u16::from_be_bytes([offset, offset_low])), nature);
    let length = u64::from(u16::from_be_bytes([length, length_low]));
    let mut length = length_of(length, nature.size_bytes.wrapping_sub(offset));
    let high = u16::from(flags & 0x20) | u16::from(flags & 0x40) << 9;
    let mut request_flags = u16::from(flags & 0x1f) | high;
    if command == FLUSH && seed % 4 != 0 {
        return send(
            sent,
            &request(request_flags, command, cookie(count, seed), 0, 0),
        );
    }
    if command == READ && u64::from(length) > CHEAP && u64::from(length) <= MOST_PAYLOAD {
        // The most is cheap where it is a hole, and told as one.
        request_flags &= !DF;
        if !(structured && u64::from(length) == MOST_PAYLOAD && offset >= BACKED as u64) {
            length &= CHEAP as u32 - 1;
        }
    }
    send(
        sent,
        &request(request_flags, command, cookie(count, seed), offset, length),
    );
    if command != WRITE {
        return true;
    }
    let cut = flags & 0x80 != 0 || u64::from(length) > CHEAP;
    let payload = length.min(CHEAP as u32) as usize >> usize::from(cut);
    let begin = usize::from(seed);
    sent.extend_from_slice(&PATTERN[begin..begin + payload]);
    !cut
}

fn send(sent: &mut Vec<u8>, message: &[u8]) -> bool {
    sent.extend_from_slice(message);
    true
}

/// Every byte of it differs from one request to the next.
fn cookie(count: u64, seed: u8) -> u64 {
    (count << 8 | u64::from(seed)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Two bits say which way, the rest is a figure: a byte, one near the end, the begin of a block, one beyond all ends.
fn offset_of(code: u64, nature: Nature) -> u64 {
    let figure = code & 0x3fff;
    match code >> 14 {
        0 => figure % BACKED as u64,
        1 => nature
            .size_bytes
            .wrapping_add(128)
            .wrapping_sub(figure & 0x3ff),
        2 => (figure & 0xff) * 64,
        _ => u64::MAX - figure,
    }
}

/// The same: bytes, up to about the end, blocks, bounds.
fn length_of(code: u64, to_end: u64) -> u32 {
    let figure = code & 0x3fff;
    match code >> 14 {
        0 => figure as u32 & 0x7ff,
        1 => (to_end as u32)
            .wrapping_add(figure as u32 & 3)
            .wrapping_sub(1),
        2 => (figure as u32 & 0x7f) * 64,
        _ => {
            let most = MOST_PAYLOAD as u32;
            [0, 1, most, most + 1, u32::MAX, 1 << 31, 512, 511][figure as usize & 7]
        }
    }
}

/// What is written: bytes of any value, a different part of them for each seed.
static PATTERN: [u8; CHEAP as usize + 256] = pattern();

const fn pattern() -> [u8; CHEAP as usize + 256] {
    let mut bytes = [0; CHEAP as usize + 256];
    let (mut at, mut state) = (0, 1_u32);
    while at < bytes.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes[at] = (state >> 24) as u8;
        at += 1;
    }
    bytes
}

/// A plan with every command in it.
pub(super) fn seed(nature: u8, options: &[u8]) -> Vec<u8> {
    let requests: [[u8; RECORD]; 11] = [
        // Some bytes at 0x140, the begin of the export, its end, the state of all of it.
        [1, 0, 0x01, 0x40, 0x02, 0xbc, 7],
        [0, 0, 0, 0, 0x07, 0xff, 1],
        [0, 4, 0, 0, 0x40, 1, 1],
        [7, 0, 0, 0, 0x40, 1, 1],
        [4, 1, 0x80, 6, 0x80, 4, 1],
        [6, 16, 0x01, 0x90, 0x01, 0, 1],
        [6, 2, 0x80, 9, 0x80, 10, 1],
        [7, 8, 0, 0x64, 0x04, 0, 1],
        [5, 0, 0, 0, 0xc0, 6, 1],
        [3, 0, 0, 0, 0, 0, 1],
        [0, 0, 0x40, 0x90, 0x40, 2, 1],
    ];
    [&[nature, 3], options, requests.as_flattened()].concat()
}
