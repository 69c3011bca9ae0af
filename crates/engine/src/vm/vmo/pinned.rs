//! Pins that end by themselves: with the value that stands for them.

use super::{VmoError, VmoId, Vmos};
use crate::compression::worker::Worker;
use crate::machine::memory::Memory;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// One pin on each page of a range, for as long as it lives. It can be moved and exchanged; each of its
/// pins is taken off once.
#[must_use = "nothing is pinned any more when it is dropped"]
pub struct Pinned<'a, M: Memory, C: PageCodec, S: CompressedStorage> {
    vmos: &'a Vmos<M, C, S>,
    id: VmoId,
    pages: Range<u64>,
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// [Pins](Vmos::pin) a range until what is returned is dropped.
    pub fn pinned(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        pages: Range<u64>,
    ) -> Result<Pinned<'_, M, C, S>, VmoError> {
        self.pin(host, worker, id, pages.clone())?;
        Ok(Pinned {
            vmos: self,
            id,
            pages,
        })
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Pinned<'_, M, C, S> {
    /// The VMO.
    pub fn vmo(&self) -> VmoId {
        self.id
    }

    /// Its pages that are pinned.
    pub fn pages(&self) -> Range<u64> {
        self.pages.clone()
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Drop for Pinned<'_, M, C, S> {
    fn drop(&mut self) {
        // A VMO with pinned pages neither ends nor shrinks below them, so this is refused only where
        // somebody took off a pin that was not theirs.
        let unpinned = self.vmos.unpin(self.id, self.pages());
        debug_assert_eq!(unpinned, Ok(()), "a pin that was not theirs was taken off");
    }
}
