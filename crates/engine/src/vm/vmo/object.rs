//! The record of a VMO or of a hidden node.

use super::family::Family;
use super::{MAX_PAGES, VmoError, Vmos};
use crate::SegmentId;
use crate::machine::memory::{Memory, VmoId};
use crate::pages::segment::{Long, Word};
use coldpress_arena::{Link, Zeroable};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// The number of an [`Object`]; 0 is none.
pub(crate) type NodeId = u32;

/// What a record stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Free = 0,
    Vmo = 1,
    Hidden = 2,
}

/// A VMO or a hidden node. All but the first three words are read and written under the
/// family's lock.
#[repr(C)]
pub(crate) struct Object {
    link: AtomicU32,
    /// How often the record was freed.
    generation: AtomicU32,
    /// The segment in which the family's lock lies; 0: not in use. Set under that lock.
    family: AtomicU32,
    kind: Word,
    /// The hidden node above, or 0.
    pub(crate) parent: Word,
    /// Of a hidden node: the first of those below it.
    pub(crate) first_child: Word,
    /// Those beside it below its parent: before and after it.
    pub(crate) siblings: [Word; 2],
    /// Root of the directory of segments.
    pub(crate) root: Word,
    /// Not 0: it may hold zero intervals. Never so in a hidden node.
    pub(crate) intervals: Word,
    /// The position of its first page.
    pub(crate) base: Long,
    /// Its size. Of a hidden node: unused.
    pub(crate) pages: Long,
    /// The parent is seen below this position only; of a pager-backed VMO, which has no parent: what
    /// its pager knows.
    pub(crate) parent_limit: Long,
    /// Not 0: a pager supplies its pages.
    pub(crate) pager_backed: Word,
    /// What it holds itself.
    pub(crate) account: Word,
    /// Its pages that are pinned.
    pub(crate) pinned: Long,
    /// How often it is marked as latency-sensitive; of a hidden node, how often all VMOs below are.
    pub(crate) marks: Word,
}

// SAFETY: atomics; zero is valid.
unsafe impl Zeroable for Object {}

impl Link for Object {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl Object {
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    pub(crate) fn family(&self) -> SegmentId {
        self.family.load(Acquire)
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.kind.get() {
            1 => Kind::Vmo,
            2 => Kind::Hidden,
            _ => Kind::Free,
        }
    }

    pub(crate) fn begin(&self, kind: Kind, base: u64, pages: u64, family: SegmentId) {
        let words = [
            &self.parent,
            &self.first_child,
            &self.root,
            &self.intervals,
            &self.marks,
            &self.pager_backed,
        ];
        for word in words.into_iter().chain(&self.siblings) {
            word.set(0);
        }
        self.base.set(base);
        self.pages.set(pages);
        self.parent_limit.set(0);
        self.pinned.set(0);
        self.kind.set(kind as u32);
        self.family.store(family, Release);
    }

    /// The record stands for nothing any more. Under the family's lock.
    pub(crate) fn end(&self) {
        self.kind.set(Kind::Free as u32);
        self.generation.fetch_add(1, Relaxed);
        self.family.store(0, Release);
    }

    /// The position behind its last page.
    pub(crate) fn end_position(&self) -> u64 {
        self.base.get() + self.pages.get()
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Creates a VMO of so many pages, all zeros.
    pub fn create(&self, host: &M, pages: u64) -> Result<VmoId, VmoError> {
        if pages > MAX_PAGES {
            return Err(VmoError::OutOfRange);
        }
        let family = self.new_family(host).ok_or(VmoError::NoMemory)?;
        let Some(node) = self.new_object(host) else {
            self.end_family(family);
            return Err(VmoError::NoMemory);
        };
        let object = self.objects.get(node);
        family.join(1);
        object.begin(Kind::Vmo, 0, pages, family.id());
        Ok(self.id_of(node))
    }

    /// How many pages a VMO has.
    pub fn pages(&self, id: VmoId) -> Result<u64, VmoError> {
        let (family, node) = self.lock(id)?;
        Ok(family.object(node).pages.get())
    }

    /// VMOs and hidden nodes that there are.
    pub fn objects(&self) -> u32 {
        self.objects.in_use()
    }

    /// A record that nothing is stored in yet.
    pub(super) fn new_object(&self, host: &M) -> Option<NodeId> {
        let account = self.engine.tables.new_account(host)?;
        let node = {
            let _table = self.table.lock();
            match self.objects.reserve(host, 1) {
                true => self.objects.take(),
                false => None,
            }
        };
        match node {
            Some(node) => self.objects.get(node).account.set(account),
            None => self.engine.tables.give_account(account),
        }
        node
    }

    /// Gives a record back whose object has ended.
    pub(super) fn give_object(&self, node: NodeId) {
        self.engine
            .tables
            .give_account(self.objects.get(node).account.get());
        let _table = self.table.lock();
        self.objects.give(node);
    }

    pub(super) fn id_of(&self, node: NodeId) -> VmoId {
        VmoId {
            node,
            generation: self.objects.get(node).generation(),
        }
    }

    /// Locks the family of a VMO.
    pub(super) fn lock(&self, id: VmoId) -> Result<(Family<'_, M, C, S>, NodeId), VmoError> {
        if id.node == 0 || id.node > self.objects.handed_out() {
            return Err(VmoError::NoSuchVmo);
        }
        let object = self.objects.get(id.node);
        loop {
            let lock = object.family();
            if lock == 0 || object.generation() != id.generation {
                return Err(VmoError::NoSuchVmo);
            }
            let family = self.hold_family(lock);
            if object.family() == lock && object.generation() == id.generation {
                debug_assert_eq!(object.kind(), Kind::Vmo);
                return Ok((family, id.node));
            }
        }
    }
}
