//! A storage that moves an object at every step of compaction, whether that pays or not: one
//! object a frame.

use coldpress_arena::ChunkSource;
use coldpress_storage::{
    Compaction, CompressedStorage, FRAME_BYTES, FrameSource, Reference, Usage, read_at, write,
};

const OBJECTS: usize = 16;

#[derive(Default)]
pub struct Restless {
    held: [Option<Reference>; OBJECTS],
    /// The object to move next.
    next: usize,
}

impl Restless {
    fn hold(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference> {
        let frame = frames.allocate()?;
        let reference = Reference::new(frame, 0, len, 0);
        let place = self.held.iter_mut().find(|place| place.is_none());
        *place.expect("as many as there are frames") = Some(reference);
        Some(reference)
    }
}

impl CompressedStorage for Restless {
    const NAME: &'static str = "restless";

    fn reserve(&self, _: &impl ChunkSource, _: u32) -> bool {
        true
    }

    fn allocate(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference> {
        self.hold(frames, len)
    }

    fn free(&mut self, frames: &impl FrameSource, reference: Reference) {
        let place = self.held.iter_mut().find(|held| **held == Some(reference));
        *place.expect("freed what is not held") = None;
        frames.free(reference.frame());
    }

    fn usage(&self) -> Usage {
        let objects = self.held.iter().flatten().count();
        let payload_bytes = self.held.iter().flatten().map(|held| held.len()).sum();
        Usage {
            storage_bytes: objects * FRAME_BYTES,
            payload_bytes,
            fragmentation_bytes: objects * FRAME_BYTES - payload_bytes,
            metadata_bytes: 0,
            objects,
        }
    }

    fn compact(
        &mut self,
        frames: &impl FrameSource,
        _: usize,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> Compaction {
        self.next = (self.next + 1) % OBJECTS;
        let from = (0..OBJECTS).find_map(|n| self.held[(self.next + n) % OBJECTS]);
        let Some(from) = from else {
            return Compaction::default();
        };
        let Some(to) = self.hold(frames, from.len()) else {
            return Compaction::default();
        };
        let mut bytes = vec![0; from.len()];
        // SAFETY: both are held; nothing is being written while the engine lets us compact, and
        // nobody knows `to`.
        unsafe {
            assert!(read_at(frames, from, 0, &mut bytes));
            write(frames, to, &[&bytes]);
        }
        let moved = relocate(from, to);
        self.free(frames, if moved { from } else { to });
        Compaction {
            objects: moved.into(),
            ..Compaction::default()
        }
    }

    fn check_invariants(&self) {}
}
