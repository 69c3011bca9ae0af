//! The trait that every storage implements.
//!
//! The order of calls that RFC-0219 prescribes ("Compression algorithm"), with the lock that
//! `&mut self` stands for:
//!
//! ```text
//!  take compressed storage lock
//!      reference = storage.allocate(frames, len)      bookkeeping only, bounded, no copying
//!  release compressed storage lock
//!  write(frames, reference, bytes)                    nobody else knows the reference yet
//!  publish the reference in the page list
//!    … data(frames, reference, gather)                any thread, no lock
//!  take the reference out of the page list, wait until no thread reads the object
//!  take compressed storage lock
//!      storage.free(frames, reference)
//!  release compressed storage lock
//! ```
//!
//! Invariants, of every storage:
//! * S1 Objects that are allocated at the same time share no byte.
//! * S2 An object stays where its reference says until it is freed. (A storage that moves
//!   objects does so in [`compact`](CompressedStorage::compact) only, and asks first.)
//! * S3 A frame without an object is returned to the host at once, and storing an object takes
//!   one frame at most; so `storage_bytes == frames held × 4096`, and as long as objects lie in
//!   one frame each the worst case is one frame an object: no more memory than the
//!   uncompressed pages would take. What a storage that divides objects promises instead it says
//!   itself: [`SizeClass`](crate::SizeClass) returns frames by the chain, [`Press`](crate::Press)
//!   holds no more frames than pieces.
//! * S4 No allocator is called. Tables grow in `reserve` only.

use coldpress_arena::ChunkSource;

use crate::frame::{FRAME_BYTES, FrameSource};
use crate::reference::Reference;

/// What a storage holds. Exact, and read without looking at the frames.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// Frames held, in bytes.
    pub storage_bytes: usize,
    /// Sum of the objects' lengths.
    pub payload_bytes: usize,
    /// Bytes of frames held that are no payload: `storage_bytes - payload_bytes`.
    pub fragmentation_bytes: usize,
    /// Bytes of tables that have been used, in memory beside the frames: whole pages of tables by
    /// frame, which is what a host backs. Tables do not shrink. What a storage keeps inside frames
    /// is fragmentation.
    pub metadata_bytes: usize,
    /// Objects stored.
    pub objects: usize,
}

/// What one call of [`CompressedStorage::compact`] did.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Compaction {
    /// Objects moved.
    pub objects: usize,
    /// Bytes of the objects moved.
    pub bytes: usize,
    /// Frames given back to the host.
    pub frames: usize,
    /// Frames taken from the host to move objects into.
    pub frames_taken: usize,
    /// Every frame that was worth it has been looked at; the next call begins a new pass.
    pub pass_ended: bool,
}

/// A way to keep objects of up to a page in frames.
pub trait CompressedStorage: Send {
    /// The name by which options, statistics and benchmarks call the storage.
    const NAME: &'static str;

    /// The longest object that can be stored, the engine's header included.
    const MAX_OBJECT_BYTES: usize = FRAME_BYTES;

    /// Grows the tables so that the next `count` allocations cannot fail for want of them. (If
    /// several storages share a source of frames: the allocations of all of them, since tables
    /// go by the number of the frame.) `false`: the host has no memory; what there was stays usable. Called where waiting is
    /// allowed, never on the fault path.
    fn reserve(&self, source: &impl ChunkSource, count: u32) -> bool;

    /// Allocates `len` bytes, or nothing: if the host has no frame, if
    /// [`reserve`](Self::reserve) has to be called first, or if `len` is 0 or larger than
    /// [`MAX_OBJECT_BYTES`](Self::MAX_OBJECT_BYTES). Nothing has changed then.
    ///
    /// The caller holds the storage lock, and [writes](crate::write) the bytes after releasing
    /// it.
    fn allocate(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference>;

    /// Frees an object.
    ///
    /// # Panics
    /// If the storage can tell that there is no such object: freeing twice is a fault of the
    /// engine, and going on could give one page's bytes to another.
    fn free(&mut self, frames: &impl FrameSource, reference: Reference);

    /// What is held now.
    fn usage(&self) -> Usage;

    /// Moves objects together to empty sparsely filled frames: goes on with the pass under way,
    /// or begins one. Copies at most `budget_bytes`, or else one object; so the pause is bounded
    /// by the budget. Looking for what to move is charged to the budget too, so a call may have
    /// moved nothing; but every call gets on, and the pass ends.
    ///
    /// For each move the bytes are copied first, then `relocate(from, to)` is asked. `true`
    /// means that whoever held `from` holds `to` from now on and that nobody reads `from` any
    /// more; the storage then frees `from`. `false` means that the object stays where it is;
    /// the storage frees `to`. The storage lock is held meanwhile, so `relocate` must not wait
    /// for a lock that is held while the storage lock is taken.
    ///
    /// A storage that does not compact (the RFC: "can be implemented if and when it is needed")
    /// moves nothing; that is the default.
    fn compact(
        &mut self,
        frames: &impl FrameSource,
        budget_bytes: usize,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> Compaction {
        let _ = (frames, budget_bytes, relocate);
        Compaction {
            pass_ended: true,
            ..Compaction::default()
        }
    }

    /// Checks every invariant of the tables, in time proportional to their size. For tests and
    /// for diagnosis.
    ///
    /// # Panics
    /// If an invariant does not hold; the message names it.
    fn check_invariants(&self);

    /// Checks what the storage keeps in the frames themselves, in time proportional to them. By
    /// default nothing: most storages keep nothing there.
    ///
    /// # Panics
    /// If an invariant does not hold; the message names it.
    fn check_frames(&self, frames: &impl FrameSource) {
        let _ = frames;
    }
}
