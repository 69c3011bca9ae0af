//! press, for pages of which some are of press-dense.
//!
//! It compresses as one of them does, and decompresses both: the lowest bits of a stored page tell which it
//! is, so nobody need keep that beside the reference.
#![forbid(unsafe_code)]

use super::{DenseScratch, DenseState, DenseTables, PressDense, is_dense};
use crate::press::Press;
use crate::{Compressed, Corrupt, Page, PageCodec};

/// press and press-dense.
#[derive(Copy, Clone)]
pub(crate) struct Both<'t> {
    pub(crate) press: Press,
    /// Those of press-dense, if there are some yet.
    pub(crate) tables: Option<&'t DenseTables>,
    /// Whether press-dense compresses, once there are tables.
    pub(crate) densely: bool,
}

impl PageCodec for Both<'_> {
    const NAME: &'static str = "press, some of it dense";
    type State = DenseState;
    type Scratch = DenseScratch;

    #[inline]
    fn compress(&self, state: &mut DenseState, page: &Page, out: &mut [u8]) -> Compressed {
        let tables = self.tables.filter(|_| self.densely);
        match tables.and_then(PressDense::new) {
            None => self.press.compress(&mut state.press, page, out),
            Some(mut dense) => {
                dense.detect_same_filled = self.press.detect_same_filled;
                dense.compress(state, page, out)
            }
        }
    }

    #[inline]
    fn decompress(
        &self,
        scratch: &mut DenseScratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        match is_dense(stored) {
            false => self.press.decompress(&mut scratch.press, stored, page),
            true => self
                .tables
                .and_then(PressDense::new)
                .ok_or(Corrupt)?
                .decompress(scratch, stored, page),
        }
    }
}
