//! Storages behind one object-safe trait.

use crate::host::Host;
use coldpress_storage::{Compaction, CompressedStorage, Reference, Usage};

/// A storage that lives on a [`Host`].
pub(crate) trait DynStorage {
    fn reserve(&self, host: &Host<'_>, count: u32) -> bool;
    fn allocate(&mut self, host: &Host<'_>, len: usize) -> Option<Reference>;
    fn free(&mut self, host: &Host<'_>, reference: Reference);
    fn compact(
        &mut self,
        host: &Host<'_>,
        budget_bytes: usize,
        relocate: &mut dyn FnMut(Reference, Reference) -> bool,
    ) -> Compaction;
    fn usage(&self) -> Usage;
    fn check_invariants(&self);
}

impl<S: CompressedStorage> DynStorage for S {
    fn reserve(&self, host: &Host<'_>, count: u32) -> bool {
        CompressedStorage::reserve(self, host, count)
    }

    fn allocate(&mut self, host: &Host<'_>, len: usize) -> Option<Reference> {
        CompressedStorage::allocate(self, host, len)
    }

    fn free(&mut self, host: &Host<'_>, reference: Reference) {
        CompressedStorage::free(self, host, reference);
    }

    fn compact(
        &mut self,
        host: &Host<'_>,
        budget_bytes: usize,
        mut relocate: &mut dyn FnMut(Reference, Reference) -> bool,
    ) -> Compaction {
        CompressedStorage::compact(self, host, budget_bytes, &mut relocate)
    }

    fn usage(&self) -> Usage {
        CompressedStorage::usage(self)
    }

    fn check_invariants(&self) {
        CompressedStorage::check_invariants(self);
    }
}
