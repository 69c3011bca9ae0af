//! VMOs: memory objects over the page lists of the engine.
//!
//! ```text
//!   VMO v ──▶ Object ─▶ directory ─▶ segments ─▶ leaves ─▶ entries       what v itself holds
//!               │ parent
//!               ▼
//!            hidden node ─▶ directory ─▶ …    counts: who else sees an entry
//!               │ parent                      (only where v was snapshotted)
//!               ▼  …
//! ```
//!
//! A *snapshot* of v freezes v's page list: a *hidden node* takes it over whole, and v and the snapshot
//! become children of it, both empty. A page of a VMO is the first entry that is not empty on the way
//! up from the VMO; where there is none, it is zeros. Who writes first copies the page down to itself,
//! or takes it, if nobody else sees it any more. All VMOs that are related in this way are a *family*
//! and have one lock (`family.rs`), so there is no order between locks of VMOs.
//!
//! Positions: all page lists of a family are indexed alike. Page p of a VMO stands at position
//! `base + p`, and a snapshot of a part of v begins at v's base plus the part's offset. So entries
//! never change their index when they move up or down, and nothing needs memory when a VMO ends: whole
//! leaves and segments change their owner.
//!
//! Invariants (under the family's lock):
//! * V1 A hidden node has at least two children.
//! * V2 An entry of a hidden node that is not empty is seen by at least one VMO; its counter is the
//!   number of VMOs that see it, less one. The counters lie beside the leaf, and know nothing of
//!   what the entry holds: a page, a temporary reference, a compressed one, a marker.
//! * V3 A VMO sees its parent's entries only below its `parent_limit`, which is never above its end;
//!   it holds no entries beyond its end itself.
//! * V4 Leaves of hidden nodes have counters (shares); those of VMOs have some where pages are pinned.
//! * V5 Zero intervals stand in VMOs, never in hidden nodes: what is above them is not seen (`hide`).
//! * V6 A page that stands in a hidden node is mapped by nobody for writing.
//!
//! Nobody decompresses, waits or allocates with the lock held. Each operation looks, and if what it
//! found needs any of the three, gives the lock back, does that, and looks again from the beginning: the
//! VMO may be smaller or gone by then, which is an [error](VmoError) like any other.
//!
//! What it deliberately does not have: handles and rights, mappings (the machine's, told through
//! [`Memory`]), slices, references.

mod access;
mod attribution;
mod check;
mod destroy;
mod directory;
mod error;
mod extent;
mod family;
mod fault;
mod hide;
mod hint;
mod lookup;
mod moves;
mod object;
mod overwrite;
mod pager;
pub mod pages;
mod pin;
mod pinned;
mod priority;
mod read_stored;
mod resize;
mod resolve;
mod snapshot;
mod transfer;
mod tree;
mod zero;

pub use crate::machine::memory::VmoId;
pub use crate::pages::account::Usage;
pub use crate::pages::page::Dirtiness;
pub use attribution::{Attribution, Shares};
pub use error::VmoError;
pub use extent::Extent;
pub use hint::Hint;
pub use pin::MAX_PINS;
pub use pinned::Pinned;
pub use transfer::SpliceList;

use crate::Engine;
use crate::machine::lock::{Lock, rank};
use crate::machine::memory::Memory;
use crate::machine::protocol::Protocol;
use coldpress_arena::Pool;
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_storage::CompressedStorage;
use object::Object;

/// The most pages that a VMO can have: 16 TiB.
pub const MAX_PAGES: u64 = 1 << 32;

/// Positions in a family: so much that the number of a segment fits into 32 bits.
const MAX_POSITION: u64 = pages::POSITIONS;

/// All VMOs of one security domain, on an engine of their own.
pub struct Vmos<M: Memory, C: PageCodec, S: CompressedStorage> {
    engine: Engine<M, C, S>,
    objects: Pool<Object>,
    /// Guards the pool `objects`; a leaf of the order.
    table: Lock<M::RawLock, (), { rank::LEAF }>,
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// No VMOs yet.
    pub const fn new(codec: C, storage: S) -> Self {
        const {
            assert!(
                matches!(M::PROTOCOL, Protocol::UnderLock),
                "VMOs need pages to change under their lock"
            )
        };
        Self {
            engine: Engine::new(codec, storage),
            objects: Pool::new(),
            table: Lock::new(()),
        }
    }

    /// The engine below: ageing, reclaim, compaction, counters. Its segments belong to the VMOs;
    /// whoever changes their entries behind the VMOs' back is wrong.
    pub fn engine(&self) -> &Engine<M, C, S> {
        &self.engine
    }

    /// Has tables ready for so many segments (pieces of 32 MiB), leaves (pieces of 256 KiB) and pages
    /// more, so that faults, which never grow tables, find some. `false`: no memory.
    pub fn prepare_for(&self, host: &M, segments: u32, leaves: u32, pages: u32) -> bool {
        self.engine.tables.reserve_segments(host, segments)
            && self.engine.prepare_for(host, leaves, pages)
    }

    /// Segments, leaves and tables of counters that are in use. A family uses a segment for its lock.
    pub fn tables_in_use(&self) -> (u32, u32, u32) {
        let tables = self.engine.tables.in_use();
        (tables.segments, tables.leaves, tables.counts)
    }

    /// Bytes of tables that have been touched, the engine's and storage's included.
    pub fn metadata_bytes(&self) -> usize {
        self.objects.touched_bytes() + self.engine.metadata_bytes()
    }
}

/// How many pages so many bytes are: what an interface in bytes asks before it creates or resizes.
pub fn pages_of(bytes: u64) -> Result<u64, VmoError> {
    match bytes.is_multiple_of(PAGE_SIZE as u64) {
        true => Ok(bytes / PAGE_SIZE as u64),
        false => Err(VmoError::NotAligned),
    }
}
