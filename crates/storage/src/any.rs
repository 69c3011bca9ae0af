//! One of the storages, chosen when the program starts.
//!
//! The engine is a `static`, so its storage exists before any option is read. An [`AnyStorage`]
//! holds every kind, all empty; [`AnyStorage::select`] says which one is used, and then each call
//! goes there. The others are never touched: their tables are memory that the host never
//! backs.
//!
//! Invariants:
//! * A1 The kind changes only while nothing is stored and no table was reserved.
#![forbid(unsafe_code)]

use core::fmt;

use coldpress_arena::ChunkSource;

use crate::compressed_storage::{Compaction, CompressedStorage, Usage};
use crate::frame::FrameSource;
use crate::reference::Reference;
use crate::{Press, SizeClass, ThreeSlot, TwoSlot};

/// A kind of storage.
#[derive(Copy, Clone, Debug, Default, Eq, Hash, PartialEq)]
pub enum StorageKind {
    /// [`TwoSlot`], zbud.
    TwoSlot,
    /// [`ThreeSlot`], the RFC's.
    ThreeSlot,
    /// [`SizeClass`], zsmalloc.
    SizeClass,
    /// [`Press`], our own.
    #[default]
    Press,
}

impl StorageKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::TwoSlot, Self::ThreeSlot, Self::SizeClass, Self::Press];

    /// The kind of this name, or `None` if no storage is called so.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name by which options, statistics and benchmarks call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoSlot => TwoSlot::NAME,
            Self::ThreeSlot => ThreeSlot::NAME,
            Self::SizeClass => SizeClass::NAME,
            Self::Press => Press::NAME,
        }
    }
}

impl fmt::Display for StorageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every storage, of which one is used. About 220 KiB; meant to be a `static`, or part of one.
pub struct AnyStorage {
    kind: StorageKind,
    two_slot: TwoSlot,
    three_slot: ThreeSlot,
    size_class: SizeClass,
    press: Press,
}

impl Default for AnyStorage {
    fn default() -> Self {
        Self::new(StorageKind::default())
    }
}

/// Calls a method of the storage that is used.
macro_rules! selected {
    ($any:ident, $storage:ident => $call:expr) => {
        match $any.kind {
            StorageKind::TwoSlot => {
                let $storage = &$any.two_slot;
                $call
            }
            StorageKind::ThreeSlot => {
                let $storage = &$any.three_slot;
                $call
            }
            StorageKind::SizeClass => {
                let $storage = &$any.size_class;
                $call
            }
            StorageKind::Press => {
                let $storage = &$any.press;
                $call
            }
        }
    };
    (mut $any:ident, $storage:ident => $call:expr) => {
        match $any.kind {
            StorageKind::TwoSlot => {
                let $storage = &mut $any.two_slot;
                $call
            }
            StorageKind::ThreeSlot => {
                let $storage = &mut $any.three_slot;
                $call
            }
            StorageKind::SizeClass => {
                let $storage = &mut $any.size_class;
                $call
            }
            StorageKind::Press => {
                let $storage = &mut $any.press;
                $call
            }
        }
    };
}

impl AnyStorage {
    /// Storage of this kind that holds nothing, and has no tables yet.
    pub const fn new(kind: StorageKind) -> Self {
        Self {
            kind,
            two_slot: TwoSlot::new(),
            three_slot: ThreeSlot::new(),
            size_class: SizeClass::new(),
            press: Press::new(),
        }
    }

    /// The kind that is used.
    pub fn kind(&self) -> StorageKind {
        self.kind
    }

    /// Chooses the kind, before the first use.
    ///
    /// # Panics
    /// If something was stored already (A1).
    pub fn select(&mut self, kind: StorageKind) {
        let usage = self.usage();
        assert!(
            kind == self.kind || (usage.objects == 0 && usage.metadata_bytes == 0),
            "the kind of storage cannot change once it is used"
        );
        self.kind = kind;
    }
}

impl CompressedStorage for AnyStorage {
    const NAME: &'static str = "any";

    fn reserve(&self, source: &impl ChunkSource, count: u32) -> bool {
        selected!(self, storage => storage.reserve(source, count))
    }

    fn allocate(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference> {
        selected!(mut self, storage => storage.allocate(frames, len))
    }

    fn free(&mut self, frames: &impl FrameSource, reference: Reference) {
        selected!(mut self, storage => storage.free(frames, reference));
    }

    fn usage(&self) -> Usage {
        selected!(self, storage => storage.usage())
    }

    fn compact(
        &mut self,
        frames: &impl FrameSource,
        budget_bytes: usize,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> Compaction {
        selected!(mut self, storage => storage.compact(frames, budget_bytes, relocate))
    }

    fn check_invariants(&self) {
        selected!(self, storage => storage.check_invariants());
    }

    fn check_frames(&self, frames: &impl FrameSource) {
        selected!(self, storage => storage.check_frames(frames));
    }
}
