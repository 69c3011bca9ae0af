//! Touches through mappings.

use super::resolve::Readable;
use super::{VmoError, VmoId, Vmos};
use crate::compression::worker::Worker;
use crate::machine::host::Access;
use crate::machine::memory::{Memory, Place};
use crate::pages::tables::Growth;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// A thread touches page `page` through a mapping that does not show it, or not for writing.
    /// `map` is called with the page that it shall show and whether it may be written through it,
    /// with the VMO's lock held: so no change comes between, and every later one reaches the mapping
    /// through [`Memory`].
    ///
    /// Allocates nothing: [`VmoError::NoMemory`] where no frame is free, or no table is ready
    /// ([`prepare_for`](Vmos::prepare_for)). What is zeros gets a page of its own.
    pub fn fault(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        page: u64,
        access: Access,
        map: impl FnOnce(Place, bool),
    ) -> Result<(), VmoError> {
        if access == Access::Read {
            let (family, readable) = self.readable(host, worker, id, page)?;
            if let Readable::Page(place, own) = readable {
                map(place, own && !family.is_clean(place));
                return Ok(());
            }
        }
        let (_family, place) = self.writable(host, worker, id, page, Growth::Forbidden)?;
        map(place, true);
        Ok(())
    }
}
