//! Page codecs: compress one 4 KiB page into a bounded buffer, and back.
//!
//! A codec is a strategy behind one trait, [`PageCodec`]. It sees one page and one output
//! buffer, and knows nothing of locks, of storage or of where the page comes from. What it
//! needs to remember while it compresses is the caller's: the [`PageCodec::State`], which lies
//! in memory of the host that starts out as zeroes. Decompressing shares no state at all (what it
//! works with, the [`PageCodec::Scratch`], is the caller's as well), so any number of threads can
//! decompress at a time, also while another one compresses.
//!
//! ```text
//!            ┌──────────────────── compress(state, page, out) ───────────────┐
//!  page ───▶ │ same-filled? ──yes──▶ SameFilled(word)     nothing to store   │
//!  4096 B    │     no                                                        │
//!            │ codec, bounded by out.len() ──fits──▶ Stored(n)  out[..n]     │
//!            │     does not fit, stops early ──────▶ Incompressible          │
//!            └───────────────────────────────────────────────────────────────┘
//!  out[..n] ─── decompress(scratch, stored, page) ──▶ Ok: all 4096 bytes written, or Corrupt
//! ```
//!
//! Invariants, of every codec:
//! * I1 No allocation: neither a codec nor its state is ever made with an allocator, and no
//!   method calls one.
//! * I2 `Stored(n)` has `1 <= n <= out.len()` and `n <= PAGE_SIZE`, and `out[..n]` decompresses
//!   to the page. No byte beyond `out` is written.
//! * I3 The outcome and `out[..n]` depend on the page, the codec's parameters and `out.len()`;
//!   never on what the state or `out` held before.
//! * I4 `decompress` reads inside `stored` and writes inside the page, whatever the bytes are.
//!   If it says `Ok` it has written all of the page, and the result depends on `stored` alone.
//!
//! What is not here: checking that the bytes are the right ones. A codec rejects what it cannot
//! decode; that decoded bytes are the page that was compressed is for the engine to verify with
//! [`checksum()`].
//!
//! Implements RFC-0219, sections "Compression algorithm", "Target compressed size" and "Zero
//! page scanning".
#![no_std]
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
extern crate std;

mod any;
mod checksum;
mod codec;
#[cfg(feature = "liblz4")]
mod lz4;
pub mod lz4_rust;
mod lzo;
pub mod press;
pub mod press_dense;
pub mod same_filled;
mod wkdm;
#[cfg(feature = "zstd")]
mod zstd;
#[cfg(feature = "zstd")]
pub mod zstd_dictionary;

pub use any::{
    AlreadyChosen, AnyCodec, AnyScratch, AnyState, CodecKind, Density, NameError, SameFilled,
};
pub use checksum::checksum;
pub use codec::{Compressed, Corrupt, PageCodec};
#[cfg(feature = "liblz4")]
pub use lz4::{Lz4, Lz4State};
pub use lz4_rust::Lz4Rust;
pub use lzo::Lzo;
pub use wkdm::{Wkdm, WkdmSections};
#[cfg(feature = "zstd")]
pub use zstd::{Zstd, ZstdScratch, ZstdState};

/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;

/// One page's content.
///
/// It is always a private copy or an owned page, never the program's live memory: a codec must
/// not read bytes that change under it.
pub type Page = [u8; PAGE_SIZE];

/// The most bytes a compressed page may have to be worth storing: 70 % of a page.
///
/// RFC-0219, "Target compressed size": decompressing costs time, so a page that hardly shrinks
/// is better left as it is; "targets of 70% are common in other system". It is a tunable: the
/// caller passes its target as the length of the output buffer.
pub const DEFAULT_TARGET_BYTES: usize = PAGE_SIZE * 70 / 100;
