//! Entries of a page list: RFC-0219 "VmPageList markers".
//!
//! ```text
//!  63                                             3 2   0
//! │                    data                        │type │
//!  type 0  data 0: empty; else a page: index of its record
//!       1  zero marker, data 0: content that is all zero; else a part of a zero interval
//!          (`interval.rs`): a run of pages that are all zero
//!       2  compressed reference: the token of compressed storage
//!       3  same-filled: bits 59 and 60 tell the form of the word in the low 59 bits:
//!          0 as it is · 1 its low half, repeated · 2 shifted right by 5 · 3 inverted
//!       5  temporary reference: the staging slot of a page that is being compressed
//!       6  request: the worker that is restoring the page
//!       7  poisoned: what was remembered is lost or in doubt, and must not be read
//! ```
//!
//! Type 4 is kept for pages written back. An *empty* entry means that nothing is remembered: a
//! touch finds zeros, as in fresh anonymous memory.

use crate::machine::host::StagingSlot;
use crate::pages::interval::{self, Bound, DirtyState};
use coldpress_storage::Reference;

/// Where a page is: for hosts that have just promised that it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whereabouts {
    /// Where the program has it, or nowhere, and in no run that is being taken out.
    AtRest,
    /// Away.
    Away,
    /// In a run that is being taken out: it is away soon, or at rest.
    BeingTaken,
}

/// A page list entry, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing is remembered.
    Empty,
    /// The content is in place; the number of its page record.
    Page(u32),
    /// Content that is all zero, held without a page.
    Zero,
    /// A part of a zero interval: see [`interval`].
    ZeroInterval(Bound, DirtyState),
    /// Content held by compressed storage.
    Compressed(Reference),
    /// Content that repeats one word.
    SameFilled(u64),
    /// Content in a staging slot, on its way into storage.
    Temporary(StagingSlot),
    /// Content that a worker is restoring.
    Request(u16),
    /// Content that is lost or in doubt: no touch of it may return bytes. Only with hosts that
    /// own their pages; others poison the place itself.
    Poisoned,
}

const PAGE: u64 = 0;
const ZERO: u64 = 1;
const COMPRESSED: u64 = 2;
const SAME_FILLED: u64 = 3;
const TEMPORARY: u64 = 5;
const REQUEST: u64 = 6;
const POISONED: u64 = 7;

/// Words below this fit as they are.
const WORD_LIMIT: u64 = 1 << 59;
const LOW_HALF: u64 = 0xFFFF_FFFF;

/// The 61 bits for a same-filled word, or `None` where it has none of the four forms.
fn encode_word(word: u64) -> Option<u64> {
    let form = |n: u64, data: u64| Some(n << 59 | data);
    match word {
        _ if word < WORD_LIMIT => form(0, word),
        _ if word >> 32 == word & LOW_HALF => form(1, word & LOW_HALF),
        _ if word & 31 == 0 => form(2, word >> 5),
        _ if !word < WORD_LIMIT => form(3, !word),
        _ => None,
    }
}

fn decode_word(bits: u64) -> u64 {
    let data = bits & (WORD_LIMIT - 1);
    match bits >> 59 {
        0 => data,
        1 => data << 32 | data,
        2 => data << 5,
        _ => !data,
    }
}

impl Entry {
    /// The entry for a page filled with `word`, or `None` where the word does not fit (it then
    /// goes to storage like any other content).
    pub fn same_filled(word: u64) -> Option<Self> {
        match word {
            0 => Some(Entry::Zero),
            word => encode_word(word).map(|_| Entry::SameFilled(word)),
        }
    }

    /// Whether a page is held for it: in place, in staging, or on its way into place.
    pub(crate) fn is_committed(self) -> bool {
        matches!(self, Entry::Page(_) | Entry::Temporary(_))
    }

    /// Whether anything but zeros is remembered.
    pub(crate) fn is_content(self) -> bool {
        !matches!(self, Entry::Empty | Entry::Zero | Entry::ZeroInterval(..))
    }

    pub(crate) fn encode(self) -> u64 {
        match self {
            Entry::Empty => 0,
            Entry::Page(record) => u64::from(record) << 3 | PAGE,
            Entry::Zero => ZERO,
            Entry::ZeroInterval(bound, state) => interval::encode(bound, state) << 3 | ZERO,
            Entry::Compressed(reference) => reference.to_bits() << 3 | COMPRESSED,
            Entry::SameFilled(word) => {
                let data = encode_word(word).expect("made by Entry::same_filled");
                data << 3 | SAME_FILLED
            }
            Entry::Temporary(slot) => u64::from(slot.0) << 3 | TEMPORARY,
            Entry::Request(worker) => u64::from(worker) << 3 | REQUEST,
            Entry::Poisoned => POISONED,
        }
    }

    pub(crate) fn decode(bits: u64) -> Self {
        let data = bits >> 3;
        match bits & 7 {
            PAGE if data == 0 => Entry::Empty,
            PAGE => Entry::Page(data as u32),
            ZERO if data == 0 => Entry::Zero,
            ZERO => {
                let (bound, state) = interval::decode(data);
                Entry::ZeroInterval(bound, state)
            }
            COMPRESSED => Entry::Compressed(
                Reference::from_bits(data).expect("61 bits of data make a reference"),
            ),
            SAME_FILLED => Entry::SameFilled(decode_word(data)),
            TEMPORARY => Entry::Temporary(StagingSlot(data as u16)),
            REQUEST => Entry::Request(data as u16),
            POISONED => Entry::Poisoned,
            _ => unreachable!("page list entry of an unknown type"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldpress_storage::FrameIndex;

    #[test]
    fn every_entry_survives_encoding() {
        for entry in [
            Entry::Empty,
            Entry::Page(1),
            Entry::Page(u32::MAX),
            Entry::Zero,
            Entry::Compressed(Reference::new(FrameIndex(1), 0, 1, 0)),
            Entry::Compressed(Reference::new(FrameIndex(u32::MAX), 0, 4096, 127)),
            Entry::Compressed(Reference::new_split(FrameIndex(u32::MAX), 4088, 4096, 127)),
            Entry::Temporary(StagingSlot(0)),
            Entry::Temporary(StagingSlot(511)),
            Entry::Request(0),
            Entry::Request(255),
            Entry::Poisoned,
        ] {
            assert_eq!(Entry::decode(entry.encode()), entry);
        }
    }

    #[test]
    fn same_filled_words_keep_their_value_or_are_refused() {
        for word in [
            1,
            0xFF,
            WORD_LIMIT - 1,
            WORD_LIMIT,
            u64::MAX,
            (-5i64) as u64,
            1.0f64.to_bits(),
            (-0.5f64).to_bits(),
            0xAAAA_AAAA_AAAA_AAAA,
            0x8000_0001_8000_0001,
        ] {
            let entry = Entry::same_filled(word).unwrap();
            assert_eq!(entry, Entry::SameFilled(word));
            assert_eq!(Entry::decode(entry.encode()), entry);
        }
        assert_eq!(Entry::same_filled(0), Some(Entry::Zero));
        assert_eq!(Entry::same_filled(0x9E37_79B9_7F4A_7C15), None);
    }
}
