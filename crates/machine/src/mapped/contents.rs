//! What tests write into pages.

use super::{Machine, System};
use coldpress_codec::{Page, same_filled};
use coldpress_engine::{Entry, Host, PageIndex, SegmentId};
use coldpress_storage::Gather;

/// What a page is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Compresses well.
    Text,
    /// Does not compress.
    Noise,
    Zero,
    /// One word, repeated.
    Word(u64),
}

impl Kind {
    /// Of every form that an entry can have, and one word that has none.
    pub const ALL: [Self; 8] = [
        Self::Text,
        Self::Noise,
        Self::Zero,
        Self::Word(0x1234),
        Self::Word(0xAAAA_AAAA_AAAA_AAAA),
        Self::Word(0x8000_0000_0000_0020),
        Self::Word(!0x1234),
        Self::Word(0x9E37_79B9_7F4A_7C15),
    ];

    /// Whether a marker holds it.
    pub fn is_marker(self) -> bool {
        match self {
            Self::Zero => true,
            Self::Word(word) => Entry::same_filled(word).is_some(),
            _ => false,
        }
    }
}

/// A page of a kind; others for other seeds, where the kind has more than one.
pub fn content(kind: Kind, seed: u64) -> Page {
    let mut page = [0; 4096];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    match kind {
        Kind::Zero => {}
        Kind::Word(word) => same_filled::fill(&mut page, word),
        Kind::Text => {
            let line = [seed, next(), next()];
            for (i, word) in page.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *word = if i % 61 == 7 { next() } else { line[i % 3] }.to_ne_bytes();
            }
        }
        Kind::Noise => {
            for word in page.as_chunks_mut::<8>().0 {
                *word = next().to_ne_bytes();
            }
        }
    }
    page
}

/// Changes the stored bytes of a compressed page.
pub fn poke_in_storage(
    system: &System,
    segment: SegmentId,
    index: PageIndex,
    change: impl FnOnce(&mut [u8]),
) {
    let machine: &Machine = &system.machine;
    let Entry::Compressed(reference) = system.engine.entry(segment, index) else {
        panic!("page {index} of segment {segment} is not compressed");
    };
    let mut gather = Gather::new();
    // SAFETY: the entry names the object; the test's own thread is the only one.
    let bytes = unsafe { coldpress_storage::data(machine.frames(), reference, &mut gather) };
    let mut bytes = bytes.unwrap().to_vec();
    change(&mut bytes);
    // SAFETY: as above.
    unsafe { coldpress_storage::write(machine.frames(), reference, &[&bytes]) };
}
