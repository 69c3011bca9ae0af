//! The press format: what the bytes of a stored page mean. `docs/press-format.md` is its
//! specification; the constants here are its tables.
//!
//! ```text
//!  masked page   ┌────────┬──────────────────┬───────────────┬───────────┬────────────┐
//!                │ header │ codes            │ literals      │ masks     │ distances  │
//!                │ 4 B    │ 256 B, or sparse │ 1 B, or 7 bit │ 1 B each  │ 1 or 2 B   │
//!                └────────┴──────────────────┴───────────────┴───────────┴────────────┘
//!  page of runs  ┌────────┬───────────────────────────┐
//!                │ header │ entry · entry · …         │   see `runs.rs`
//!                └────────┴───────────────────────────┘
//! ```
//!
//! A page is 512 words of 8 bytes. Each word is a *candidate* word with some bytes replaced by
//! *literals*; the *mask* says which. A *code* of four bits per word names the candidate and,
//! for the frequent ones, the mask; other masks are listed.
#![forbid(unsafe_code)]

use crate::PAGE_SIZE;

/// Words of a page.
pub(crate) const WORDS: usize = PAGE_SIZE / 8;

/// Words that the encoders handle at a time.
pub(crate) const BLOCK_WORDS: usize = 64;

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 4;

/// Bytes of the codes where they are not sparse.
pub(crate) const CODE_BYTES: usize = WORDS / 2;

/// Bytes of the bitmap that says which bytes of sparse codes are listed.
pub(crate) const CODE_BITMAP_BYTES: usize = CODE_BYTES / 8;

/// Which word a word is compared with.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Candidate {
    /// Eight zero bytes.
    Zero = 0,
    /// The word before.
    Previous = 1,
    /// The word before that.
    SecondPrevious = 2,
    /// The word at the distance that was named last (8 at the beginning of a page).
    Continued = 3,
    /// A new distance of 1 to 255 words, one byte.
    WordDistance = 4,
    /// A new distance of 8 to 4,088 bytes, two bytes.
    ByteDistance = 5,
}

/// How many candidates there are.
pub(crate) const CANDIDATES: usize = 6;

/// What a code says of the mask.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Mask {
    /// It is this one.
    Is(u8),
    /// It is the next one of the list.
    Listed,
}

/// The sixteen codes. Every candidate has one with a listed mask.
pub(crate) const CODES: [(Candidate, Mask); 16] = {
    use Candidate::{ByteDistance, Continued, Previous, SecondPrevious, WordDistance, Zero};
    use Mask::{Is, Listed};
    [
        (Zero, Is(0x00)),
        (Continued, Is(0x00)),
        (Zero, Is(0xff)),
        (Zero, Is(0x01)),
        (WordDistance, Is(0x00)),
        (Continued, Is(0x03)),
        (Continued, Is(0x01)),
        (Previous, Is(0x01)),
        (Previous, Is(0x00)),
        (Continued, Listed),
        (Zero, Listed),
        (Previous, Listed),
        (SecondPrevious, Listed),
        (WordDistance, Listed),
        (ByteDistance, Listed),
        (Previous, Is(0x03)),
    ]
};

/// Bit in [`CODE_OF`] that says the mask is listed.
pub(crate) const LISTED: u8 = 0x80;

/// The code for a candidate and a mask, with [`LISTED`] set where the mask has to be listed.
pub(crate) const CODE_OF: [[u8; 256]; CANDIDATES] = {
    let mut table = [[0; 256]; CANDIDATES];
    let mut code = 0;
    while code < 16 {
        if let (candidate, Mask::Listed) = CODES[code] {
            table[candidate as usize] = [code as u8 | LISTED; 256];
        }
        code += 1;
    }
    code = 0;
    while code < 16 {
        if let (candidate, Mask::Is(mask)) = CODES[code] {
            table[candidate as usize][mask as usize] = code as u8;
        }
        code += 1;
    }
    table
};

// The same tables in the forms that vectors look them up in.

/// Classes of masks: 0 none, 1 all, 2 the first byte, 3 the first two, 4 any other.
pub(crate) const CLASS_OF_MASK: [u8; 256] = {
    let mut table = [4; 256];
    table[0x00] = 0;
    table[0xff] = 1;
    table[0x01] = 2;
    table[0x03] = 3;
    table
};

/// A mask of each class.
const MASK_OF_CLASS: [u8; 5] = [0x00, 0xff, 0x01, 0x03, 0x02];

/// Code, with [`LISTED`], by candidate × 8 + class.
pub(crate) const CODE_BY_CLASS: [u8; 64] = {
    let mut table = [0; 64];
    let mut candidate = 0;
    while candidate < CODE_OF.len() {
        let mut class = 0;
        while class < MASK_OF_CLASS.len() {
            table[candidate * 8 + class] = CODE_OF[candidate][MASK_OF_CLASS[class] as usize];
            class += 1;
        }
        candidate += 1;
    }
    table
};

/// By code, four times over: the candidate, with [`LISTED`] where the mask is listed.
pub(crate) const CANDIDATE_OF_CODE: [u8; 64] = by_code(Part::Candidate);
/// By code, four times over: the mask, 0 where it is listed.
pub(crate) const MASK_OF_CODE: [u8; 64] = by_code(Part::Mask);

/// What a table has for a code.
#[derive(Clone, Copy)]
enum Part {
    Candidate,
    Mask,
}

const fn by_code(part: Part) -> [u8; 64] {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (candidate, mask) = CODES[i % 16];
        table[i] = match (mask, part) {
            (Mask::Is(_), Part::Candidate) => candidate as u8,
            (Mask::Listed, Part::Candidate) => candidate as u8 | LISTED,
            (Mask::Is(mask), Part::Mask) => mask,
            (Mask::Listed, Part::Mask) => 0,
        };
        i += 1;
    }
    table
}

/// The eight bytes of a word that a mask selects, as a mask of 64 bits.
pub(crate) const EXPANDED: [u64; 256] = {
    let mut table = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        let mut byte = 0;
        while byte < 8 {
            if mask >> byte & 1 == 1 {
                table[mask] |= 0xff << (8 * byte);
            }
            byte += 1;
        }
        mask += 1;
    }
    table
};

/// The bits of the first byte that say what kind of stored page it is.
pub(crate) const KIND_BITS: u8 = 3;

/// A page with an entropy stage (press-dense).
pub(crate) const KIND_DENSE: u8 = 2;

/// What the first two bits of the header say.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Codes, literals, masks, distances.
    Masked,
    /// Runs of equal words.
    Runs,
}

/// How the codes are stored.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Codes {
    /// All 256 bytes.
    Plain,
    /// Bytes of this value are left out; a bitmap says where the others are.
    Sparse(u8),
}

impl Codes {
    /// Two words that are zero.
    pub(crate) const BASE_ZERO: u8 = 0x00;
    /// Two words that continue a match.
    pub(crate) const BASE_CONTINUED: u8 = 0x11;
    /// Two words that are the word before.
    pub(crate) const BASE_PREVIOUS: u8 = 0x88;
    /// All of them; of equally frequent ones the first is taken.
    pub(crate) const BASES: [u8; 3] = [Self::BASE_ZERO, Self::BASE_CONTINUED, Self::BASE_PREVIOUS];
}

/// The header of a masked page.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub codes: Codes,
    /// Literals below 128 are stored in seven bits, by groups of eight.
    pub packed: bool,
    /// How many literals there are.
    pub literals: usize,
    /// How many masks are listed.
    pub masks: usize,
}

impl Header {
    /// ```text
    ///  31         29 28       19 18           6 5      4      3    2 1     0
    ///  │ 0          │ masks     │ literals      │ 0    │ packed│ codes│ kind │
    /// ```
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let codes = match self.codes {
            Codes::Plain => 0,
            Codes::Sparse(Codes::BASE_ZERO) => 1,
            Codes::Sparse(Codes::BASE_CONTINUED) => 2,
            Codes::Sparse(_) => 3,
        };
        let bits = codes << 2
            | u32::from(self.packed) << 4
            | (self.literals as u32) << 6
            | (self.masks as u32) << 19;
        bits.to_le_bytes()
    }

    /// `None` where no encoder writes such a header.
    pub(crate) fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let bits = u32::from_le_bytes(bytes);
        let header = Self {
            codes: match bits >> 2 & 3 {
                0 => Codes::Plain,
                1 => Codes::Sparse(Codes::BASE_ZERO),
                2 => Codes::Sparse(Codes::BASE_CONTINUED),
                _ => Codes::Sparse(Codes::BASE_PREVIOUS),
            },
            packed: bits >> 4 & 1 == 1,
            literals: (bits >> 6 & 0x1fff) as usize,
            masks: (bits >> 19 & 0x3ff) as usize,
        };
        let known = bits & 3 == 0 && bits >> 29 == 0 && bits >> 5 & 1 == 0;
        (known && header.literals <= PAGE_SIZE && header.masks <= WORDS).then_some(header)
    }
}

/// The kind that the first byte of a stored page names.
pub(crate) fn kind(first: u8) -> Option<Kind> {
    match first & KIND_BITS {
        0 => Some(Kind::Masked),
        1 => Some(Kind::Runs),
        _ => None,
    }
}
