//! What stands in storage for one page: a header of twelve bytes, then the codec's bytes.
//!
//! ```text
//!  0          4                    8       12                   length
//! │ checksum │ stored │ P │ F │ owner │ compressed bytes … │
//! ```
//!
//! The checksum is that of the whole uncompressed page (law L1: it covers storage, codec and
//! every copy between); the time is the host's clock in units of 8 ms, modulo 2^27. P is the page's
//! [patience](crate::pages::patience), four bits. F, the highest bit of the word, tells that what follows is the word
//! of a same-filled page which no entry can hold, and not bytes of the codec (which may well be eight, too); or, if it
//! is four bytes long, the number of the record that has the payload below memory: a stub (`stub.rs`).
//! The owner is where the entry stands: it lets storage be compacted. It is the only part that is written again, when
//! the entry moves: under the storage lock, so that no compaction copies it meanwhile.

use crate::pages::patience::MOST;
use crate::pages::segment::Owner;
use coldpress_storage::{FrameSource, Reference, read_at};

/// Bytes that stand before the compressed bytes of a page: checksum, time, owner.
pub const HEADER_BYTES: usize = 12;

/// Bytes of a payload that names a record.
pub(crate) const RECORD_BYTES: usize = 4;

/// Where the time stands.
const TIME_AT: usize = 4;

/// Where the owner stands.
pub(crate) const OWNER_AT: usize = 8;

const SAME_FILLED: u32 = 1 << 31;
const PATIENCE_AT: u32 = 27;
const TIME: u32 = (1 << PATIENCE_AT) - 1;
/// Milliseconds in a unit of the time.
const UNIT_MS: u32 = 8;

/// What stands behind a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Bytes of the codec.
    OfCodec,
    /// A word that fills the page, or the number of a record: F is set.
    Word,
}

/// The header of a stored page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub checksum: u32,
    /// In units of the header.
    pub stored: u32,
    pub patience: u8,
    /// The payload is a word that fills the page, or names a record; else it is the codec's.
    pub same_filled: bool,
    pub owner: Owner,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let patience = u32::from(self.patience & MOST) << PATIENCE_AT;
        let same_filled = if self.same_filled { SAME_FILLED } else { 0 };
        let time = self.stored & TIME | patience | same_filled;
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[TIME_AT..OWNER_AT].copy_from_slice(&time.to_le_bytes());
        bytes[OWNER_AT..].copy_from_slice(&self.owner.0.to_le_bytes());
        bytes
    }

    pub(crate) fn read(from: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = from.split_first_chunk::<HEADER_BYTES>()?;
        let word = |at: usize| {
            let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_le_bytes(bytes)
        };
        let time = word(TIME_AT);
        let header = Self {
            checksum: word(0),
            owner: Owner(word(OWNER_AT)),
            stored: time & TIME,
            patience: (time >> PATIENCE_AT) as u8 & MOST,
            same_filled: time & SAME_FILLED != 0,
        };
        Some((header, rest))
    }

    /// The record that a payload names; `None`: it is the payload itself.
    pub(crate) fn record(&self, payload: &[u8]) -> Option<u32> {
        let number: [u8; RECORD_BYTES] = payload.try_into().ok()?;
        self.same_filled.then(|| u32::from_le_bytes(number))
    }
}

/// The host's clock in the unit of the header.
pub(crate) fn time(now_ns: u64) -> u32 {
    (now_ns / (u64::from(UNIT_MS) * 1_000_000)) as u32 & TIME
}

/// Milliseconds from a time of a header until now.
pub(crate) fn milliseconds_since(stored: u32, now_ns: u64) -> u32 {
    (time(now_ns).wrapping_sub(stored) & TIME) * UNIT_MS
}

/// Whether a time of a header is another or later, of times that lie less than half a round of the clock apart.
pub(crate) fn is_since(stored: u32, start: u32) -> bool {
    stored.wrapping_sub(start) & TIME < TIME / 2
}

/// When the object was stored, or `None` where it is damaged.
///
/// # Safety
/// As for [`coldpress_storage::read_at`].
pub(crate) unsafe fn stored_at(frames: &impl FrameSource, reference: Reference) -> Option<u32> {
    let mut time = [0; 4];
    // SAFETY: as the caller promises.
    let whole = unsafe { read_at(frames, reference, TIME_AT, &mut time) };
    whole.then_some(u32::from_le_bytes(time) & TIME)
}

/// Bucket of the residency histogram for a page stored at this time and wanted now.
pub(crate) fn residency_bucket(stored: u32, now_ns: u64) -> usize {
    let seconds = milliseconds_since(stored, now_ns) / 1000;
    match seconds {
        0 => 0,
        s => (s.ilog2() as usize + 1).min(8),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn headers_carry_every_field() {
        for same_filled in [false, true] {
            for (stored, patience) in [(0, MOST), (1, 0), (TIME, 9)] {
                let header = Header {
                    checksum: 0x89AB_CDEF,
                    stored,
                    patience,
                    same_filled,
                    owner: Owner(0x7654_3210),
                };
                let bytes = [&header.to_bytes()[..], &[7]].concat();
                assert_eq!(Header::read(&bytes), Some((header, &[7][..])));
            }
        }
        assert_eq!(Header::read(&[0; HEADER_BYTES - 1]), None);
    }

    #[test]
    fn a_record_is_told_from_a_word_and_from_what_a_codec_made() {
        let header = |same_filled| Header {
            checksum: 1,
            stored: 2,
            patience: 3,
            same_filled,
            owner: Owner(4),
        };
        assert_eq!(header(true).record(&7u32.to_le_bytes()), Some(7));
        assert_eq!(header(true).record(&7u64.to_le_bytes()), None);
        assert_eq!(header(false).record(&7u32.to_le_bytes()), None);
    }

    #[test]
    fn times_are_compared_around_the_end_of_the_clock() {
        assert!(is_since(5, 5) && is_since(6, 5) && !is_since(5, 6));
        assert!(is_since(3, TIME - 3) && !is_since(TIME - 3, 3));
    }

    #[test]
    fn residency_buckets_follow_the_rfc_and_tell_what_is_longer() {
        let at = |seconds: u64| residency_bucket(0, seconds * 1_000_000_000);
        assert_eq!(at(0), 0);
        assert_eq!(at(1), 1);
        assert_eq!((at(2), at(3)), (2, 2));
        assert_eq!((at(64), at(127)), (7, 7));
        assert_eq!((at(128), at(100_000)), (8, 8));
        assert_eq!(residency_bucket(TIME, 0), 0, "the clock has gone round");
    }
}
