//! The trait that every codec implements, and its outcomes.
//!
//! The trait is made for use as a type parameter (the engine is monomorphic in its codec), so
//! it has associated items. A product that chooses a codec at run time wraps several in an enum
//! that implements the trait.
//!
//! Implements RFC-0219, "Compression algorithm": the algorithm must not call `malloc` in steady
//! operation, must decompress in parallel without shared mutable state, must compress in
//! parallel to decompression, and should stop early when the target size is exceeded.
#![forbid(unsafe_code)]

use coldpress_arena::Zeroable;

use crate::Page;

/// What became of a page. All three are successes.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Compressed {
    /// The first this many bytes of the output buffer hold the compressed page.
    Stored(usize),
    /// Every 64-bit word of the page is this one, in the machine's byte order; zero for a zero
    /// page. Nothing was stored, and nothing need be: a marker in the page list is enough.
    SameFilled(u64),
    /// The page does not fit the bound. The compressor stopped as soon as it knew. What the
    /// output buffer holds is of no use.
    Incompressible,
}

/// The bytes are not a compressed page.
///
/// The page that was to be written holds parts of a result, or what it held before: it must not
/// be given to anyone.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Corrupt;

impl core::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the stored bytes are not a compressed page")
    }
}

impl core::error::Error for Corrupt {}

/// A way to compress one page into a bounded buffer, and back.
///
/// The value itself holds only parameters; it is shared by all threads.
pub trait PageCodec: Send + Sync {
    /// The name by which options, statistics and benchmarks call the codec.
    const NAME: &'static str;

    /// What [`compress`](Self::compress) works with. It belongs to the caller, who owns one for
    /// each compression that runs at a time.
    ///
    /// All-zero bytes are a valid state ([`Zeroable`]), so it can be placed in a `static` or in
    /// fresh pages of the kernel, without ever passing over a stack.
    type State: Zeroable + Send;

    /// What [`decompress`](Self::decompress) works with: `()` for most codecs, a decoder's
    /// tables and buffers for those that need some. It belongs to the caller, who owns one for
    /// each decompression that runs at a time; it carries nothing from one page to the next.
    ///
    /// All-zero bytes are a valid value, as for [`State`](Self::State).
    type Scratch: Zeroable + Send;

    /// Compresses `page` into at most `out.len()` bytes, the target size; stops early if it
    /// does not fit. An empty `out` stores nothing, but same-filled pages are still told.
    fn compress(&self, state: &mut Self::State, page: &Page, out: &mut [u8]) -> Compressed;

    /// Writes to `page` what was compressed to `stored`, the exact bytes of a
    /// [`Compressed::Stored`].
    ///
    /// # Errors
    /// [`Corrupt`] if `stored` does not decode to exactly one page.
    fn decompress(
        &self,
        scratch: &mut Self::Scratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt>;

    /// Whether `stored` tells that this codec has made it, and not another that shares its decoder. Most tell
    /// nothing.
    fn has_made(&self, stored: &[u8]) -> bool {
        let _ = stored;
        false
    }
}
