//! press, for pages of which some were re-coded to press-dense.
//!
//! It compresses as press does, and decompresses both: the lowest bits of a stored page tell which it
//! is, so nobody need keep that beside the reference.
#![forbid(unsafe_code)]

use super::{DenseScratch, DenseTables, PressDense};
use crate::press::format::{KIND_BITS, KIND_DENSE};
use crate::press::{Press, PressState};
use crate::{Compressed, Corrupt, Page, PageCodec};

/// press, and press-dense for decompressing.
#[derive(Copy, Clone)]
pub(crate) struct Both<'t> {
    pub(crate) press: Press,
    /// Those with which pages were re-coded, if any were.
    pub(crate) tables: Option<&'t DenseTables>,
}

impl PageCodec for Both<'_> {
    const NAME: &'static str = "press, some of it dense";
    type State = PressState;
    type Scratch = DenseScratch;

    #[inline]
    fn compress(&self, state: &mut PressState, page: &Page, out: &mut [u8]) -> Compressed {
        self.press.compress(state, page, out)
    }

    #[inline]
    fn decompress(
        &self,
        scratch: &mut DenseScratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        let is_dense = stored
            .first()
            .is_some_and(|first| first & KIND_BITS == KIND_DENSE);
        match is_dense {
            false => self.press.decompress(&mut scratch.press, stored, page),
            true => self
                .tables
                .and_then(PressDense::new)
                .ok_or(Corrupt)?
                .decompress(scratch, stored, page),
        }
    }
}
