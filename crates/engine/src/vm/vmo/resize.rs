//! Changing the size of a VMO.

use super::{MAX_PAGES, VmoError, VmoId, Vmos};
use crate::machine::memory::Memory;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Gives a VMO another size. What is beyond it is forgotten, and reads as zeros should the VMO
    /// grow again. Refused where pages beyond it are pinned.
    pub fn resize(&self, host: &M, id: VmoId, pages: u64) -> Result<(), VmoError> {
        if pages > MAX_PAGES {
            return Err(VmoError::OutOfRange);
        }
        let (family, node) = loop {
            let (family, node) = self.lock(id)?;
            let end = family.object(node).base.get() + pages;
            // An interval that reaches over the new end is cut there.
            let cut = family.list(host, node).isolate(&(end..end));
            if cut.is_ok() {
                break (family, node);
            }
            drop(family);
            self.grow(host)?;
        };
        let object = family.object(node);
        let end = object.base.get() + pages;
        let old_end = object.end_position();
        if end < old_end {
            if family.is_pinned(node, end, old_end) {
                return Err(VmoError::BadState);
            }
            family.let_go_inherited(host, node, end, old_end);
            family.free_own(host, node, end, old_end);
            object.parent_limit.set(object.parent_limit.get().min(end));
            if family.is_pager_backed(node) {
                host.answered(id, pages..object.pages.get());
            }
        }
        object.pages.set(pages);
        Ok(())
    }
}
