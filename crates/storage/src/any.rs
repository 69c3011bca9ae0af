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

/// Every storage, once: what a kind is called here, its type, and where [`AnyStorage`] holds it.
macro_rules! storages {
    ($($(#[$doc:meta])* $kind:ident in $field:ident,)*) => {
        /// A kind of storage.
        #[derive(Copy, Clone, Debug, Default, Eq, Hash, PartialEq)]
        pub enum StorageKind {
            $($(#[$doc])* $kind,)*
        }

        impl StorageKind {
            /// Every kind.
            pub const ALL: [Self; [$(stringify!($kind)),*].len()] = [$(Self::$kind),*];

            /// The name by which options, statistics and benchmarks call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $kind::NAME,)*
                }
            }
        }

        /// Every storage, of which one is used. About 220 KiB; meant to be a `static`, or part of one.
        pub struct AnyStorage {
            kind: StorageKind,
            $($field: $kind,)*
        }

        impl AnyStorage {
            /// Storage of this kind that holds nothing, and has no tables yet.
            pub const fn new(kind: StorageKind) -> Self {
                Self {
                    kind,
                    $($field: $kind::new(),)*
                }
            }
        }

        impl CompressedStorage for AnyStorage {
            const NAME: &'static str = "any";

            fn reserve(&self, source: &impl ChunkSource, count: u32) -> bool {
                match self.kind {
                    $(StorageKind::$kind => self.$field.reserve(source, count),)*
                }
            }

            fn allocate(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference> {
                match self.kind {
                    $(StorageKind::$kind => self.$field.allocate(frames, len),)*
                }
            }

            fn free(&mut self, frames: &impl FrameSource, reference: Reference) {
                match self.kind {
                    $(StorageKind::$kind => self.$field.free(frames, reference),)*
                }
            }

            fn usage(&self) -> Usage {
                match self.kind {
                    $(StorageKind::$kind => self.$field.usage(),)*
                }
            }

            fn compact(
                &mut self,
                frames: &impl FrameSource,
                budget_bytes: usize,
                relocate: &mut impl FnMut(Reference, Reference) -> bool,
            ) -> Compaction {
                match self.kind {
                    $(StorageKind::$kind => self.$field.compact(frames, budget_bytes, relocate),)*
                }
            }

            fn check_invariants(&self) {
                match self.kind {
                    $(StorageKind::$kind => self.$field.check_invariants(),)*
                }
            }

            fn check_frames(&self, frames: &impl FrameSource) {
                match self.kind {
                    $(StorageKind::$kind => self.$field.check_frames(frames),)*
                }
            }
        }
    };
}

storages! {
    /// [`TwoSlot`], zbud.
    TwoSlot in two_slot,
    /// [`ThreeSlot`], the RFC's.
    ThreeSlot in three_slot,
    /// [`SizeClass`], zsmalloc.
    SizeClass in size_class,
    /// [`Press`], our own.
    #[default]
    Press in press,
}

impl StorageKind {
    /// The kind of this name, or `None` if no storage is called so.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for StorageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for AnyStorage {
    fn default() -> Self {
        Self::new(StorageKind::default())
    }
}

impl AnyStorage {
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
