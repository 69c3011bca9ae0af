//! LZ4 blocks, in Rust: for hosts without C.
//!
//! The blocks are LZ4's own (`lz4_Block_format.md` of the LZ4 project), so that liblz4 reads
//! what this module writes, and the other way round. Like in [`Lz4`](crate::Lz4), each page is
//! one block without dictionary, frame or length. A block is a row of sequences:
//!
//! ```text
//!  token      literal length     literals      distance    match length
//!  ┌────┬────┬─ ─ ─ ─ ─ ─ ─ ─ ─┬─────────────┬───────────┬─ ─ ─ ─ ─ ─ ─ ─┐
//!  │ L  │ M  │ if L = 15:      │ L bytes,    │ 16 bits,  │ if M = 15:    │
//!  │ 4 b│ 4 b│ 255 … 255, rest │ copied      │ 1 to 65535│ 255 … rest    │
//!  └────┴────┴─ ─ ─ ─ ─ ─ ─ ─ ─┴─────────────┴───────────┴─ ─ ─ ─ ─ ─ ─ ─┘
//!  then M + 4 bytes are copied from `distance` bytes before; the two may overlap
//!
//!  the last sequence ends with its literals: at least the last 5 bytes of a page are literals,
//!  and no match begins in its last 12
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `search.rs` | the search for matches, which LZO shares |
//! | `compress.rs` | the writer of sequences |
//! | `decompress.rs` | the reader of sequences |
//! | `copy.rs` | copies in steps, for both, and for LZO |
//!
//! Matches are sought, and bytes copied, through pointers; each file names the invariants that
//! keep every access inside its buffer.
//!
//! What is not here: dictionaries, streams, frames, and inputs of any other length than a page.

mod compress;
pub(crate) mod copy;
mod decompress;
pub(crate) mod search;

pub use compress::compress_block;
pub use decompress::decompress_block;
pub use search::Table;

use crate::{Compressed, Corrupt, Page, PageCodec, same_filled::same_filled};

/// LZ4 in Rust with its parameters.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Lz4Rust {
    /// How fast the compressor skips over what it finds no match in, as in
    /// [`Lz4`](crate::Lz4::acceleration): 1 is the most thorough; less counts as 1.
    pub acceleration: i32,
    /// Tells pages that are one repeated word before trying to compress them.
    pub detect_same_filled: bool,
}

impl Lz4Rust {
    /// The acceleration with which RFC-0219 evaluates compressed storage.
    pub const RFC_ACCELERATION: i32 = 11;

    /// The one that finds the most.
    pub const THOROUGH: Self = Self {
        acceleration: 1,
        detect_same_filled: true,
    };
}

impl Default for Lz4Rust {
    /// The parameters of [`Lz4`](crate::Lz4)'s default: the RFC's.
    fn default() -> Self {
        Self {
            acceleration: Self::RFC_ACCELERATION,
            detect_same_filled: true,
        }
    }
}

impl PageCodec for Lz4Rust {
    const NAME: &'static str = "lz4-rust";
    type State = Table;
    type Scratch = ();

    fn compress(&self, table: &mut Table, page: &Page, out: &mut [u8]) -> Compressed {
        if self.detect_same_filled
            && let Some(word) = same_filled(page)
        {
            return Compressed::SameFilled(word);
        }
        match compress_block(table, page, out, self.acceleration) {
            Some(len) => Compressed::Stored(len),
            None => Compressed::Incompressible,
        }
    }

    fn decompress(&self, (): &mut (), stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
        decompress_block(stored, page)
    }
}
