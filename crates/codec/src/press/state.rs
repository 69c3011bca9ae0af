//! What an encoder works with: a private copy of the page, two hash tables, and the streams it
//! produces.
//!
//! ```text
//!  page   │ 64 zero bytes │ 4096 bytes: a copy of the page │ 64 zero bytes │
//!                          ▲ position 0
//! ```
//!
//! The zero bytes let encoders read the words before and after the page without a branch. The
//! buffers of the streams are larger than the streams can become, so that vectors may be stored
//! beyond their ends.
#![deny(unsafe_code)]

use coldpress_arena::Zeroable;

use super::format::{BLOCK_WORDS, CODE_BYTES, WORDS};
use crate::{PAGE_SIZE, Page};

/// Zero bytes before and after the page.
pub(crate) const MARGIN: usize = 64;

/// Bits of the hash of words.
pub(crate) const WORD_HASH_BITS: u32 = 10;

/// Bits of the hash of four bytes.
pub(crate) const TEXT_HASH_BITS: u32 = 12;

/// 2^32 divided by the golden ratio (Knuth, TAOCP 6.4).
pub(crate) const GOLDEN: u32 = 2_654_435_761;

/// The page, with zero bytes around it.
#[repr(C, align(64))]
pub(crate) struct Margined(pub [u8; MARGIN + PAGE_SIZE + MARGIN]);

impl Margined {
    /// Copies a page in.
    pub(crate) fn set(&mut self, page: &Page) {
        self.0[MARGIN..MARGIN + PAGE_SIZE].copy_from_slice(page);
    }

    /// The eight bytes at `position`, which may lie in a margin.
    #[inline(always)]
    pub(crate) fn word(&self, position: isize) -> u64 {
        let start = position.wrapping_add(MARGIN as isize) as usize;
        match self.0.get(start..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => 0,
        }
    }
}

/// Positions by hash, and what the stages of a block hand on.
#[repr(C, align(64))]
pub(crate) struct Tables {
    /// Word index by the hash of a word; cleared for each page.
    pub words: [u16; 1 << WORD_HASH_BITS],
    /// Position by the hash of four bytes; cleared for each page that is taken for text.
    pub text: [u16; 1 << TEXT_HASH_BITS],
}

/// What the stages of a vector encoder hand on for the 64 words of a block.
#[repr(C, align(64))]
pub(crate) struct Lanes {
    /// Hashes of the words.
    pub hash: [u16; BLOCK_WORDS],
    /// Word index found for each.
    pub found: [u16; BLOCK_WORDS],
    /// The word there.
    pub found_word: [u64; BLOCK_WORDS],
    /// Hashes of every second position, four for each word.
    pub entered: [u16; 4 * BLOCK_WORDS],
    /// Hashes of each word's first four bytes, and of those from its second.
    pub text_hash: [[u16; BLOCK_WORDS]; 2],
    /// Byte distances found for each.
    pub text_distance: [[u16; BLOCK_WORDS]; 2],
    /// The words there.
    pub text_word: [[u64; BLOCK_WORDS]; 2],
    /// The new distance of each word that is worth one, in bytes.
    pub distance: [u16; BLOCK_WORDS],
    /// Masks of each word against: zero, previous, second previous, found, the two of text,
    /// continued.
    pub masks: [[u64; BLOCK_WORDS / 8]; 7],
    /// The masks chosen, for each block of the page: press-dense with AVX-512 goes by them.
    pub chosen: [[u64; BLOCK_WORDS / 8]; WORDS / BLOCK_WORDS],
}

/// What an encoder makes of a page.
#[repr(C, align(64))]
pub(crate) struct Streams {
    /// A code of four bits per word, the first one in the low half of its byte.
    pub codes: [u8; CODE_BYTES],
    /// Bytes that their candidates do not have.
    pub literals: [u8; PAGE_SIZE + 8 * BLOCK_WORDS],
    /// Masks that no code implies.
    pub masks: [u8; WORDS + 2 * BLOCK_WORDS],
    /// New distances: a byte for words, two for bytes.
    pub distances: [u8; 2 * WORDS + 2 * BLOCK_WORDS],
    pub literal_count: usize,
    pub mask_count: usize,
    pub distance_bytes: usize,
}

impl Streams {
    pub(crate) fn clear(&mut self) {
        self.literal_count = 0;
        self.mask_count = 0;
        self.distance_bytes = 0;
    }

    pub(crate) fn literals(&self) -> &[u8] {
        &self.literals[..self.literal_count]
    }

    pub(crate) fn masks(&self) -> &[u8] {
        &self.masks[..self.mask_count]
    }

    pub(crate) fn distances(&self) -> &[u8] {
        &self.distances[..self.distance_bytes]
    }
}

/// What [`Press`](super::Press) compresses with. It carries nothing from one page to the next.
#[repr(C, align(64))]
pub struct PressState {
    pub(crate) page: Margined,
    pub(crate) tables: Tables,
    pub(crate) lanes: Lanes,
    pub(crate) streams: Streams,
}

// SAFETY: integers only; zero is a valid value, and there is nothing to drop.
#[allow(unsafe_code)]
unsafe impl Zeroable for PressState {}

#[allow(unsafe_code)]
impl PressState {
    /// A fresh state, for a `static` or a box. Zeroed memory does as well, without passing over a stack.
    pub const fn new() -> Self {
        // SAFETY: zero is a valid value, as above.
        unsafe { core::mem::zeroed() }
    }
}

impl Default for PressState {
    fn default() -> Self {
        Self::new()
    }
}

/// How hard an encoder looks. Paths that are given the same effort produce the same bytes.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Effort {
    /// A page with more bytes than this that are not zero is taken for text from its beginning.
    pub text_bytes: u32,
    /// A page is taken for text from the first block on after which more literals than this
    /// stand, counted for a whole page.
    pub text_literals: u32,
}

impl Effort {
    /// For press-dense, whose entropy stage takes longer than looking harder does.
    pub(crate) const DENSE: Self = Self {
        text_bytes: 2000,
        text_literals: 1200,
    };

    /// For press.
    pub(crate) const DEFAULT: Self = Self {
        text_bytes: 3200,
        text_literals: 2400,
    };
}

/// What [`Press`](super::Press) decompresses with: copies that may be read beyond their ends.
#[repr(C, align(64))]
pub struct PressScratch {
    pub(crate) codes: [u8; CODE_BYTES],
    pub(crate) literals: [u8; LITERAL_SPACE],
    pub(crate) streams: [u8; STREAM_SPACE],
    pub(crate) lanes: DecodeLanes,
}

/// Bytes for the streams of a stored page, and what 512 words can take of the last of them.
pub(crate) const STREAM_SPACE: usize = 2 * PAGE_SIZE + 64;

/// Bytes for literals: a page of them, and what a vector may write behind.
pub(crate) const LITERAL_SPACE: usize = PAGE_SIZE + 64;

/// What the stages of a vector decoder hand on for the 64 words of a block.
#[repr(C, align(64))]
pub(crate) struct DecodeLanes {
    /// Bytes that come from the candidate.
    pub keep: [u64; BLOCK_WORDS],
    /// Bytes that are literals.
    pub literal: [u64; BLOCK_WORDS],
    /// Of AVX-512: where the candidate stands; the word's own position where it is zero.
    pub source: [u16; BLOCK_WORDS],
    /// Of AVX-512: the distances that the words of a block name.
    pub named: [u16; BLOCK_WORDS],
    /// Of AVX2: how far back the candidate is; 0 where it is zero. A distance is written for the
    /// 64 words from any on.
    pub distance: [u16; 2 * BLOCK_WORDS],
    /// Which bytes of each word are literals, and which do not come from the candidate.
    pub deposited: [u8; BLOCK_WORDS],
    pub replaced: [u8; BLOCK_WORDS],
    /// Masks of the words.
    pub masks: [u64; BLOCK_WORDS / 8],
}

// SAFETY: integers only; zero is a valid value, and there is nothing to drop.
#[allow(unsafe_code)]
unsafe impl Zeroable for PressScratch {}

#[allow(unsafe_code)]
impl PressScratch {
    /// Fresh memory, for a `static` or a box. Zeroed memory does as well, without passing over a stack.
    pub const fn new() -> Self {
        // SAFETY: zero is a valid value, as above.
        unsafe { core::mem::zeroed() }
    }
}

impl Default for PressScratch {
    fn default() -> Self {
        Self::new()
    }
}
