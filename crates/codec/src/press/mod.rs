//! press: a codec for pages of memory.
//!
//! Heaps are made of words: pointers into the same region, small integers, flags. Three of four
//! matches that LZ4 finds in heap pages lie a multiple of eight bytes back. So press looks at a
//! page as 512 words, each of which is a nearby or recent word with some bytes replaced. That
//! takes a fixed, short amount of work per word, in which a processor hardly ever guesses wrong,
//! and which vectors do eight words at a time.
//!
//! ```text
//!  page ─▶ same-filled? ─▶ survey ─▶ few runs? ─▶ random? ─▶ encode ─▶ assemble ─▶ out
//!            marker        copy in    runs.rs     refuse     streams   shortest form
//!                          and count
//! ```
//!
//! | concept | file |
//! |---|---|
//! | the format's tables, the header | `format.rs`; specified in `docs/press-format.md` |
//! | what the survey tells | `survey.rs` |
//! | pages of few runs | `runs.rs` |
//! | streams to bytes and back | `assemble.rs` |
//! | encoder and decoder | `portable.rs`; `avx2/`, `avx512/` do the same with vectors |
//! | what encoders have in common | `blocks.rs` |
//! | working memory | `state.rs` |
//! | which path to take | `simd.rs` |
//!
//! Invariants, besides those of the crate:
//! * P1 Every path produces the same bytes from the same page, and decodes every path's.
//! * P2 No encoder reads outside `PressState`, no decoder outside `PressScratch`, `stored` and
//!   the page, whatever the bytes are.

#![cfg_attr(
    not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))),
    allow(dead_code, reason = "some of it is for the vector paths only")
)]

mod assemble;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
pub(crate) mod avx512;
mod blocks;
pub(crate) mod format;
pub(crate) mod paths;
pub(crate) mod portable;
mod runs;
mod simd;
pub(crate) mod state;
mod survey;

pub use simd::Simd;
pub use state::{PressScratch, PressState};

use crate::{Compressed, Corrupt, Page, PageCodec};
use core::ops::ControlFlow::{Break, Continue};
use format::HEADER_BYTES;
pub(crate) use state::Effort;

/// press with its parameters.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Press {
    simd: Simd,
    /// Tells pages that are one repeated word before trying to compress them; the switch of
    /// seed 003 (`same_filled_pages_enabled`).
    pub detect_same_filled: bool,
}

impl Press {
    /// press on the path that is fastest on this processor.
    pub fn new() -> Self {
        Self::with_simd(Simd::best())
    }

    /// press on this path; on the portable one if the processor lacks what the path needs.
    pub fn with_simd(simd: Simd) -> Self {
        Self {
            simd: simd.or_portable(),
            detect_same_filled: true,
        }
    }

    /// The path taken.
    pub fn simd(&self) -> Simd {
        self.simd
    }
}

impl Default for Press {
    fn default() -> Self {
        Self::new()
    }
}

impl PageCodec for Press {
    const NAME: &'static str = "press";
    type State = PressState;
    type Scratch = PressScratch;

    fn compress(&self, state: &mut PressState, page: &Page, out: &mut [u8]) -> Compressed {
        let copy = &mut state.page;
        let (not_zero, out) =
            match paths::before_encoder(self.simd, self.detect_same_filled, page, copy, out) {
                Continue(to_encode) => to_encode,
                Break(outcome) => return outcome,
            };
        let limit = out.len().saturating_sub(HEADER_BYTES) * 8 / 7;
        let encoded = paths::encode(self.simd, state, not_zero, limit, Effort::DEFAULT);
        let stored = encoded.and_then(|()| paths::assemble(self.simd, &state.streams, out));
        match stored {
            Some(len) => Compressed::Stored(len),
            None => Compressed::Incompressible,
        }
    }

    fn decompress(
        &self,
        scratch: &mut PressScratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        paths::decode(self.simd, scratch, stored, page)
    }
}
