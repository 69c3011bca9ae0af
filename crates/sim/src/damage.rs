//! Flips bits of stored objects.

use crate::inject::Kind;
use crate::schedule::{note, random, simulation};
use coldpress_storage::{
    FRAME_BYTES, FrameIndex, FrameSource, LINK_BYTES, Reference, parts, read_at,
};

/// The engine's header: checksum, time and form, owner; then what the codec made.
const CHECKSUM: std::ops::Range<usize> = 0..4;
const TIME: std::ops::Range<usize> = 4..8;
const OWNER: std::ops::Range<usize> = 8..12;

/// Bytes of an object that may be a stub: the header, and the number of a record.
const STUB_BYTES: usize = OWNER.end + 4;

/// Whether an object may be a stub. What of it is damaged in memory would name no record, or another's.
pub fn may_be_stub(reference: Reference) -> bool {
    reference.len() == STUB_BYTES
}

/// The record that an object names, if it is a stub.
pub fn record_of(frames: &impl FrameSource, reference: Reference) -> Option<u32> {
    let mut stub = [0; STUB_BYTES];
    // SAFETY: an entry names the object, and nobody is between two steps.
    let whole = may_be_stub(reference) && unsafe { read_at(frames, reference, 0, &mut stub) };
    let is_stub = whole && stub[TIME.end - 1] >> 7 == 1;
    is_stub.then(|| u32::from_le_bytes([stub[12], stub[13], stub[14], stub[15]]))
}

/// Flips a bit of an object that an entry names. Whether it was one of a link.
pub fn flip(frames: &impl FrameSource, reference: Reference) -> bool {
    let bit = random().below(8) as u32;
    let links = simulation().injections.allows(Kind::FlipLink);
    if links && reference.is_split() && random().one_in(8) {
        note(Kind::FlipLink);
        let byte = random().below(LINK_BYTES as u64) as usize;
        flip_bit(frames, reference.frame(), reference.offset() + byte, bit);
        return true;
    }
    // SAFETY: an entry names the object, and nobody is between two steps.
    let Some([first, rest]) = (unsafe { parts(frames, reference) }) else {
        return false;
    };
    let (kind, bytes) = match random().below(4) {
        0 => (Kind::FlipChecksum, CHECKSUM),
        1 => (Kind::FlipTime, TIME),
        2 => (Kind::FlipOwner, OWNER),
        _ => (Kind::FlipPayload, OWNER.end..reference.len()),
    };
    let at = random().between(bytes.start as u64, bytes.end as u64) as usize;
    let inside = first.1.len();
    match at < inside {
        true => flip_bit(frames, first.0, first.1.start + at, bit),
        false => flip_bit(frames, rest.0, rest.1.start + at - inside, bit),
    }
    note(kind);
    false
}

/// Flips a bit of a frame that holds an object.
fn flip_bit(frames: &impl FrameSource, frame: FrameIndex, byte: usize, bit: u32) {
    assert!(byte < FRAME_BYTES);
    // SAFETY: inside a frame that is lent, and no reference to it lives across a step.
    unsafe { *frames.address(frame).as_ptr().add(byte) ^= 1 << bit };
}
