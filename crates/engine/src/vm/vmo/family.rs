//! Families: VMOs that share pages, under one lock.
//!
//! A VMO that is created begins a family; its snapshots, and theirs, are of the same. Families never
//! merge, and a member never changes to another. The lock lies in a segment that has no pages and
//! counts the members; it goes with the last of them.

use super::Vmos;
use super::object::{NodeId, Object};
use crate::machine::memory::Memory;
use crate::pages::page_list::{Entries, Held};
use crate::pages::segment::MAX_COUNT;
use crate::{Engine, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// The VMOs of one family, while its lock is held.
pub(super) struct Family<'a, M: Memory, C: PageCodec, S: CompressedStorage> {
    pub(super) vmos: &'a Vmos<M, C, S>,
    held: Held<'a, M>,
}

impl<'a, M: Memory, C: PageCodec, S: CompressedStorage> Family<'a, M, C, S> {
    pub(super) fn engine(&self) -> &'a Engine<M, C, S> {
        &self.vmos.engine
    }

    pub(super) fn object(&self, node: NodeId) -> &'a Object {
        let object = self.vmos.objects.get(node);
        debug_assert!(
            node != 0 && object.family() == self.id(),
            "of another family"
        );
        object
    }

    pub(super) fn entries(&self, segment: SegmentId) -> Entries<'a, M::RawLock> {
        self.engine().entries(&self.held, segment)
    }

    /// The lock alone.
    pub(super) fn into_held(self) -> Held<'a, M> {
        self.held
    }

    /// The segment in which the lock lies.
    pub(super) fn id(&self) -> SegmentId {
        self.held.id()
    }

    /// Whether so many more members can be counted.
    pub(super) fn has_room_for(&self, members: u32) -> bool {
        let count = &self.engine().tables.segment(self.id()).members;
        count.get() + members <= MAX_COUNT
    }

    /// Counts new members.
    pub(super) fn join(&self, members: u32) {
        let count = &self.engine().tables.segment(self.id()).members;
        count.set(count.get() + members);
    }

    /// Counts a member that has ended. `false`: it was the last, and the caller has to
    /// [end](Vmos::end_family) the family.
    #[must_use]
    pub(super) fn leave(&self) -> bool {
        let count = &self.engine().tables.segment(self.id()).members;
        count.set(count.get() - 1);
        count.get() > 0
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// A family without members, locked.
    pub(super) fn new_family(&self, host: &M) -> Option<Family<'_, M, C, S>> {
        let id = self.engine.create_segment(host)?;
        Some(self.hold_family(id))
    }

    pub(super) fn hold_family(&self, id: SegmentId) -> Family<'_, M, C, S> {
        Family {
            vmos: self,
            held: self.engine.hold(id),
        }
    }

    /// The family whose lock is held.
    pub(super) fn family_of<'a>(&'a self, held: Held<'a, M>) -> Family<'a, M, C, S> {
        Family { vmos: self, held }
    }

    /// Gives the lock of a family back that has no members any more.
    pub(super) fn end_family(&self, family: Family<'_, M, C, S>) {
        let id = family.id();
        self.engine.tables.segment(id).retire();
        drop(family);
        self.engine.tables.give_segment(id);
    }
}
